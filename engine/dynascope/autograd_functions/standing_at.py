"""A function of the engine's that runs where the program's own would: tracebacks name the program's lines.

    standing_at((Place("model.py", "Sine.backward", 12, 12, 8, 25),), run)      backward(ctx, *gradients), in model.py at line 12

Python makes no frames by request: the code is compiled as that of the place.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

from dynascope.dataclass import dataclass


@dataclass(frozen=True)
class Place:
    """Lines count from 1, columns UTF-8 bytes from 0."""

    file: str
    function: str
    line: int
    last_line: int
    column: int
    last_column: int


def standing_at(places: Sequence[Place], skips: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a context and gradients: what `skips` says of them where that is true, or `run` of them and of the context's saved
    tensors, which are read at the last of `places`, the callers' first."""
    names: dict[str, Any] = {"__name__": __name__, "__builtins__": builtins, "skips": skips, "run": run}
    for place in reversed(places[1:]):
        text = "lambda ctx: inner(ctx)" if "inner" in names else "lambda ctx: ctx.saved_tensors"
        names = {**names, "inner": _function(text, place, names)}
    saved = "inner(ctx)" if "inner" in names else "ctx.saved_tensors"
    return _function(f"lambda ctx, *gradients: skips(ctx, gradients) or run(ctx, gradients, {saved})", places[0], names)


def _function(text: str, place: Place, names: dict[str, Any]) -> FunctionType:
    """Each instruction stands at the place."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.arg)):
            node.lineno, node.end_lineno = place.line, place.last_line
            node.col_offset, node.end_col_offset = place.column, place.last_column
    outer = compile(tree, place.file, "eval")
    code = next(constant for constant in outer.co_consts if isinstance(constant, CodeType))
    name = place.function.rpartition(".")[2]
    return FunctionType(code.replace(co_name=name, co_qualname=place.function), names, name)
