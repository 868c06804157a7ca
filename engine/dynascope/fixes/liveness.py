"""Which names some statements of a function take from before them, and which they hand on to what comes after.

bound_of(function).around([y = x * 2, z = y + 1], in_loop=False)  ->  (["x"], ["z"])
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dynascope.dataclass import dataclass
from dynascope.fixes.scopes import Function, parameters

LATER = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.GeneratorExp
"""What reads names when it is called, not where it stands."""
FRAMES = frozenset({"locals", "vars", "eval", "exec"})
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Use:
    """One place where a name of the function itself is read or given a value."""

    name: str
    line: int
    is_store: bool
    loop: tuple[int, int] | None = None
    """The first and last line of the `for` whose variable is read inside of it."""


@dataclass(frozen=True, slots=True)
class Bound:
    function: ast.FunctionDef
    uses: tuple[Use, ...]
    outer: dict[str, tuple[str, ...]]
    """`global` and `nonlocal` with their names."""

    def around(self, row: Sequence[ast.stmt], in_loop: bool) -> tuple[list[str], list[str]]:
        taken, handed = self._taken(row, in_loop), self._handed(row, in_loop)
        order = list(dict.fromkeys([*(each.arg for each in parameters(self.function)), *(use.name for use in self.uses)]))
        return [name for name in order if name in taken], [name for name in order if name in handed]

    def may_be_unbound(self, row: Sequence[ast.stmt], in_loop: bool) -> bool:
        """Whether a name that is handed on may have no value at the end: `if c: y = x`."""
        return bool(self._handed(row, in_loop) - assigned(row) - self._known(row, in_loop))

    def is_seen_otherwise(self, rows: Sequence[Sequence[ast.stmt]]) -> bool:
        """Whether who looks at the function's names would see others: `locals()`, or a function inside, or what is computed later, that
        reads a name given a value on both sides of a border."""
        nodes = list(ast.walk(self.function))
        # What a call is given is computed in it: `sum(g.norm() for g in gradients)`.
        at_once = {id(given) for node in nodes if isinstance(node, ast.Call) for given in node.args if isinstance(given, ast.GeneratorExp)}
        later = [node for node in nodes if isinstance(node, LATER) and node is not self.function and id(node) not in at_once]
        read = {use.name for node in later for use in _uses(node) if not use.is_store}
        moved = [{use.name for each in row for use in _uses(each) if use.is_store} for row in rows]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return bool(names & FRAMES) or any(read & stored & self._own for stored in moved)

    def read(self, row: Sequence[ast.stmt]) -> set[str]:
        """The function's own names that the statements read, and do not make themselves."""
        return _exposed(row) & self._own

    def is_used_again(self, name: str, row: Sequence[ast.stmt]) -> bool:
        """Whether the statements have the name more than once."""
        return sum(use.name == name for each in row for use in _uses(each)) > 1

    def declared(self, row: Sequence[ast.stmt]) -> dict[str, list[str]]:
        """The names from outside of the function that the statements give a value."""
        written = {use.name for each in row for use in _uses(each) if use.is_store}
        return {word: [name for name in names if name in written] for word, names in self.outer.items()}

    @property
    def _own(self) -> set[str]:
        return {each.arg for each in parameters(self.function)} | {use.name for use in self.uses}

    def _known(self, row: Sequence[ast.stmt], in_loop: bool) -> set[str]:
        """What may have a value before the statements."""
        first = row[0].lineno
        stored = {use.name for use in self.uses if use.is_store and (in_loop or use.line < first)}
        return stored | {each.arg for each in parameters(self.function)}

    def _taken(self, row: Sequence[ast.stmt], in_loop: bool) -> set[str]:
        handed = self._handed(row, in_loop)
        return (_exposed(row) | (handed - assigned(row))) & self._known(row, in_loop)

    def _handed(self, row: Sequence[ast.stmt], in_loop: bool) -> set[str]:
        first, last = _lines(row)
        stored = {use.name for use in self.uses if first <= use.line <= last and use.is_store}
        wanted = {
            use.name
            for use in self.uses
            if not use.is_store and not first <= use.line <= last and (in_loop or use.line > last)
            # A variable of another loop is given its value there.
            and (use.loop is None or use.loop[0] <= first and last <= use.loop[1])
        }
        return stored & (wanted | (_exposed(row) if in_loop else set()))


def bound_of(function: ast.FunctionDef) -> Bound:
    outer: dict[str, tuple[str, ...]] = {"global": (), "nonlocal": ()}
    for node in ast.walk(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            word = "global" if isinstance(node, ast.Global) else "nonlocal"
            outer[word] = (*outer[word], *node.names)
    found = [use for statement in function.body for use in _uses(statement)]
    given = {each.arg for each in parameters(function)}
    own = (given | {use.name for use in found if use.is_store}) - {name for names in outer.values() for name in names}
    return Bound(function, tuple(use for use in found if use.name in own), outer)


def assigned(row: Iterable[ast.stmt]) -> set[str]:
    """The names that have a value for sure when the statements are over."""
    found: set[str] = set()
    for statement in row:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            found |= {use.name for use in _uses(statement) if use.is_store}
        elif isinstance(statement, ast.If):
            found |= assigned(statement.body) & assigned(statement.orelse)
        elif isinstance(statement, ast.With):
            found |= assigned(statement.body)
            found |= {use.name for each in statement.items for use in _uses(each) if use.is_store}
    return found


def _exposed(row: Sequence[ast.stmt]) -> set[str]:
    """The names that are read before the statements have given them a value for sure."""
    exposed: set[str] = set()
    made: set[str] = set()
    first, last = _lines(row)
    for statement in row:
        reads = [use for use in _uses(statement) if not use.is_store]
        exposed |= {use.name for use in reads if use.loop is None or not (first <= use.loop[0] and use.loop[1] <= last)} - made
        made |= assigned([statement])
    return exposed


def _lines(row: Sequence[ast.stmt]) -> tuple[int, int]:
    return row[0].lineno, row[-1].end_lineno or row[-1].lineno


def _uses(node: ast.AST) -> Iterator[Use]:
    """Not of names that a comprehension or a function inside has for itself."""
    if isinstance(node, COMPREHENSIONS):
        own = {name.id for each in node.generators for name in ast.walk(each.target) if isinstance(name, ast.Name)}
        yield from (use for use in _below(node) if use.name not in own)
    elif isinstance(node, Function | ast.Lambda):
        if isinstance(node, Function):
            yield Use(node.name, node.lineno, True)
        inside = [*_below(node)]
        own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        own |= {use.name for use in inside if use.is_store}
        yield from (use for use in inside if use.name not in own)
    elif isinstance(node, ast.For):
        targets = {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
        extent = node.lineno, node.end_lineno or node.lineno
        for use in _below(node):
            is_its = use.name in targets and not use.is_store and use.loop is None
            yield replace(use, loop=extent) if is_its else use
    elif isinstance(node, ast.Name):
        yield Use(node.id, node.lineno, isinstance(node.ctx, ast.Store))
    else:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield Use(node.target.id, node.lineno, False)
        if isinstance(node, ast.ClassDef | ast.ExceptHandler) and node.name is not None:
            yield Use(node.name, node.lineno, True)
        if isinstance(node, ast.alias):
            yield Use((node.asname or node.name).partition(".")[0], node.lineno, True)
        yield from _below(node)


def _below(node: ast.AST) -> Iterator[Use]:
    for child in ast.iter_child_nodes(node):
        yield from _uses(child)
