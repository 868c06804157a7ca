"""Which lines of an older text mean something else now: by definition, so that a comment or a function elsewhere changes nothing.

changed_lines(old, new)   ->  the lines of `def f` of the old text, where only `f` was edited
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dynascope.report.syntax import parsed

from dynascope_server.ide.line_map import LineMap

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[str, bytes, int, int]
"""A name, the lines that hold the definition, and where in the first and last of them it begins and ends."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A function with all inside it, the other statements of a class with its `__init__`, or a statement of the module."""

    name: str
    meaning: str
    first: int
    last: int
    uses: frozenset[str]
    makes: frozenset[str]
    place: Place


def changed_lines(old: str, new: str, lines: LineMap) -> frozenset[int]:
    """Where one of the texts cannot be parsed, as while typing: the lines that were edited, and those beside an insertion."""
    if not lines.changed:
        return frozenset()
    try:
        before = _definitions_of_run(old)
        after = _definitions(new, {definition.place: definition for definition in before})
    except (SyntaxError, ValueError, RecursionError):
        return _edited(old, new, lines)
    known = Counter((d.name, d.meaning) for d in after)
    changed = [d for d in before if not known[d.name, d.meaning]]
    had = Counter((d.name, d.meaning) for d in before)
    fresh = {name for d in after if not had[d.name, d.meaning] for name in d.makes}
    remade = fresh.union(*(d.makes for d in changed))
    changed += [d for d in before if d.uses & remade]
    return frozenset(line for d in changed for line in range(d.first, d.last + 1))


@functools.lru_cache(maxsize=8)
def _definitions_of_run(text: str) -> tuple[Definition, ...]:
    """Of the text that ran, which is the same at every key."""
    return tuple(_definitions(text, {}))


def _definitions(text: str, known: Mapping[Place, Definition]) -> list[Definition]:
    return list(_Reader(text, known).of_body(parsed(text).body, ""))


class _Reader:
    """`known`: what was read of another text. Of what stands there word for word the tree need not be looked at."""

    def __init__(self, text: str, known: Mapping[Place, Definition]) -> None:
        self._lines, self._known = text.encode().splitlines(), known

    def of_body(self, body: Sequence[ast.stmt], prefix: str) -> Iterator[Definition]:
        for node in body:
            if isinstance(node, Function):
                yield self._definition(f"{prefix}{node.name}", [node], node)
            elif isinstance(node, ast.ClassDef):
                rest = [part for part in node.body if not isinstance(part, Function | ast.ClassDef) or _is_initial(part)]
                others = [part for part in node.body if isinstance(part, Function | ast.ClassDef) and not _is_initial(part)]
                heads = [*node.bases, *node.keywords, *node.decorator_list, *rest]
                yield self._definition(f"{prefix}{node.name}", heads, node)
                yield from self.of_body(others, f"{prefix}{node.name}.")
            elif not _is_text(node):
                yield self._definition(prefix, [node], node, _made(node))

    def _definition(
        self, name: str, parts: Sequence[ast.AST], node: ast.stmt, makes: frozenset[str] = frozenset()
    ) -> Definition:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or first
        place = (name, b"\n".join(self._lines[first - 1 : last]), node.col_offset, node.end_col_offset or 0)
        if (known := self._known.get(place)) is not None:
            return replace(known, first=first, last=last)
        names = {
            part.id
            for tree in parts
            for part in ast.walk(tree)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
        }
        return Definition(name, "".join(map(ast.dump, parts)), first, last, frozenset(names), makes, place)


def _made(node: ast.stmt) -> frozenset[str]:
    """Module-level names whose meaning the statement decides; what a program does when it is run decides nothing."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return frozenset(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, (ast.AnnAssign, ast.AugAssign))
        else []
    )
    return frozenset(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def _is_initial(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__post_init__")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _edited(old: str, new: str, lines: LineMap) -> frozenset[int]:
    count = old.count("\n") + 1
    gone = {line for line in range(1, count + 1) if lines.line(line) is None}
    parted = {
        line
        for line in range(1, count)
        if (here := lines.line(line)) is not None and (after := lines.line(line + 1)) is not None and after != here + 1
    }
    return frozenset(gone | parted | {line + 1 for line in parted})
