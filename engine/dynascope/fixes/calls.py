"""Every call of a function, where all of them stand in the text.

calls_of(source, "f")      of `f(x)`, and of `g(x)` after `g = torch.compile(f)`; empty where it is given to somebody else
"""

from __future__ import annotations

import ast

from dynascope.fixes.scopes import Function
from dynascope.fixes.source import Source, called_name


def calls_of(source: Source, name: str) -> list[ast.Call]:
    """Those of another thread of meaning, inside a function that has a variable of this name, are for the proof to refuse."""
    found: list[ast.Call] = []
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        above = source.parent(node)
        if isinstance(above, ast.Call) and above.func is node:
            if any(isinstance(each, ast.FunctionDef) and each.name == name for each in source.above(node)):
                return []  # it calls itself
            found.append(above)
            continue
        other = _compiled_name(source, above, node)
        calls = calls_of(source, other) if other not in (None, name) else []
        if not calls:
            return []
        found += calls
    return found


def argument(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """What a call gives for a parameter, where it says so itself."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    given = dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}
    return given.get(name)


def _compiled_name(source: Source, call: ast.AST | None, node: ast.Name) -> str | None:
    if not isinstance(call, ast.Call) or call.args[:1] != [node] or called_name(call).rpartition(".")[2] != "compile":
        return None
    match source.parent(call):
        case ast.Assign(targets=[ast.Name(id=other)]):
            return other
    return None
