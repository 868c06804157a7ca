"""Where a program goes on after an error: the handlers around it, and what follows them in their function.

lines_after("model.py", 12)  ->  ({14, 15, 18}, True)      of `try: y = x.view(7) / except RuntimeError: ...`, which ends on line 15
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache

from dynascope.report.syntax import parsed

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
TRIES = (ast.Try, ast.TryStar)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def lines_after(file: str, line: int) -> tuple[set[int], bool]:
    """The lines of all that may follow, because the words do not tell which handler takes the error; and whether one of the line's function
    is around it, or else its caller gets the error."""
    around = _around(file, line)
    found: set[int] = set()
    for place, node in enumerate(around):
        if isinstance(node, TRIES) and _is_in(node.body, line):
            found |= {number for part in (*node.handlers, *node.finalbody) for number in _lines(part)}
            if node.handlers:
                return found | _following(around[place:]), True
        elif isinstance(node, TRIES) and not _is_in(node.finalbody, line):
            found |= {number for part in node.finalbody for number in _lines(part)}
    return found, False


def _following(around: Sequence[ast.AST]) -> set[int]:
    """What comes behind the innermost of these statements, in each that is around it; of a loop all, because it may turn once more."""
    found: set[int] = set()
    for inner, outer in zip(around, around[1:], strict=False):
        if isinstance(outer, LOOPS):
            found |= set(_lines(outer))
        last = getattr(inner, "end_lineno", 0)
        siblings = (block for block in _blocks(outer) if inner in block)
        found |= {number for block in siblings for each in block if each.lineno > last for number in _lines(each)}
    return found


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _lines(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 1), (getattr(node, "end_lineno", None) or 0) + 1)


def _is_in(block: Sequence[ast.AST], line: int) -> bool:
    return any(line in _lines(each) for each in block)


def _around(file: str, line: int) -> list[ast.AST]:
    """The statements around the line, from the innermost to those of its function."""
    tree = _tree("".join(linecache.getlines(file)))
    found: list[ast.AST] = []
    node: ast.AST | None = tree
    while node is not None:
        found.append(node)
        node = next((child for child in ast.iter_child_nodes(node) if line in _lines(child)), None)
    functions = [number for number, each in enumerate(found) if isinstance(each, FUNCTIONS)]
    return found[functions[-1] :][::-1] if functions else []


@lru_cache(maxsize=32)
def _tree(text: str) -> ast.AST | None:
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
