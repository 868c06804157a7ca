"""The functions and classes of a text, and its statements beside them, as far as they decide what names mean.

definitions(tree)["Net.forward"].head       its parameters and decorators, as text that two of the same meaning share
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from dynascope.dataclass import dataclass

Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
INITIAL = frozenset({"__init__", "__post_init__", "__new__", "setup"})
"""What they do has been done: the objects are there."""


@dataclass(frozen=True, slots=True)
class Definition:
    node: Defined
    head: str
    decorators: str
    defaults: str = ""

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)


def definitions(tree: ast.Module) -> dict[str, Definition]:
    """Of the module and of its classes; what stands inside functions is made by running them."""
    return dict(_of_body(tree.body, ""))


def _of_body(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Definition]]:
    for node in body:
        if isinstance(node, FUNCTIONS):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            head = f"{_text(_without_annotations(node.args))} {_text(*node.decorator_list)}"
            yield f"{prefix}{node.name}", Definition(node, head, _text(*node.decorator_list), _text(*defaults))
        elif isinstance(node, ast.ClassDef):
            made = [part for part in node.body if not isinstance(part, (*FUNCTIONS, ast.ClassDef)) or _is_initial(part)]
            made = [part for part in made if not _is_text(part)]
            yield (
                f"{prefix}{node.name}",
                Definition(
                    node, _text(*node.bases, *node.keywords, *node.decorator_list, *made), _text(*node.decorator_list)
                ),
            )
            yield from _of_body(node.body, f"{prefix}{node.name}.")


def literal_defaults(node: Defined) -> tuple[tuple[Any, ...] | None, dict[str, Any] | None] | None:
    """Positional and keyword defaults, where nothing has to be run for them."""
    if isinstance(node, ast.ClassDef):
        return None
    try:
        positional = tuple(ast.literal_eval(each) for each in node.args.defaults)
        pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        keywords = {argument.arg: ast.literal_eval(each) for argument, each in pairs if each is not None}
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None
    return positional or None, keywords or None


def loose_statements(tree: ast.Module) -> dict[str, ast.stmt]:
    """By meaning: the statements of the module that are no definitions."""
    return {ast.dump(node): node for node in tree.body if not isinstance(node, (*FUNCTIONS, ast.ClassDef))}


def names_made(node: ast.stmt) -> tuple[str, ...]:
    """The names of the module that a statement gives a meaning."""
    found: dict[str, None] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, (ast.Store, ast.Del)):
            found[part.id] = None
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name.partition(".")[0], None) for alias in part.names)
        elif isinstance(part, (*FUNCTIONS, ast.ClassDef)):
            found[part.name] = None
    return tuple(found)


def _text(*nodes: ast.AST | None) -> str:
    return " ".join(ast.dump(node) if node is not None else "-" for node in nodes)


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for each in every:
        if each is not None:
            each.annotation = None
    return arguments


def _is_initial(node: ast.stmt) -> bool:
    return isinstance(node, FUNCTIONS) and node.name in INITIAL


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
