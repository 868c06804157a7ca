"""Names of a function: which are its own, and what the last value was that one of them was given.

local_names(`def f(x): y = np.sin(x)`)  ->  {"x", "y"}
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(function: Function) -> list[ast.arg]:
    given = function.args
    rest = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]


def local_names(function: Function) -> set[str]:
    return {each.arg for each in parameters(function)} | stored(function.body)


def stored(nodes: Iterable[ast.AST]) -> set[str]:
    return _names(nodes, ast.Store)


def loaded(nodes: Iterable[ast.AST]) -> set[str]:
    return _names(nodes, ast.Load)


def default_of(function: Function, name: str) -> ast.expr | None:
    """What a parameter is where the call does not say."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [*zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True)]
    named = dict(zip(given.kwonlyargs, given.kw_defaults, strict=True))
    return next((default for each, default in [*pairs, *named.items()] if each.arg == name), None)


def _names(nodes: Iterable[ast.AST], context: type) -> set[str]:
    return {
        each.id
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, context)
    }
