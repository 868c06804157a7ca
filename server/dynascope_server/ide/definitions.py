"""Which functions an edit has taken out of a text.

gone({"f0": "Net.forward", "f1": "step"}, "def step(x):\\n    return x\\n")  ->  {"f0"}
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNNAMED = "<lambda>"


def gone(functions: Mapping[str, str], text: str) -> frozenset[str]:
    """By identifier the qualified name of each. None is gone from a text that is no Python: it is being typed."""
    try:
        defined = set(_defined(ast.parse(text), ""))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    return frozenset(identifier for identifier, name in functions.items() if _named(name) not in defined)


def _named(name: str) -> str:
    """What has a name around an expression that is a function; of one at the module's level nothing has: it counts as there."""
    return name.partition(UNNAMED)[0].removesuffix(".").removesuffix(".<locals>") if UNNAMED in name else name


def _defined(node: ast.AST, prefix: str) -> Iterator[str]:
    """As CPython qualifies their names; also of classes, and what has no name."""
    if not prefix:
        yield ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            yield f"{prefix}{child.name}"
            yield from _defined(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield f"{prefix}{child.name}"
            yield from _defined(child, f"{prefix}{child.name}.")
        elif not isinstance(child, ast.expr):
            yield from _defined(child, prefix)
