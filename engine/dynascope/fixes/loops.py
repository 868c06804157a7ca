"""A loop that is left when something has converged: every turn is taken, and what is finished is kept as it is.

                                            is_done = torch.zeros((), dtype=torch.bool)
for _ in range(4):                          for _ in range(4):
    better = (y + x / y) / 2                    better = (y + x / y) / 2
    if (better - y).abs().max() < 1e-3:   ->    is_done = is_done | ((better - y).abs().max() < 1e-3)
        break
    y = better                                  y = torch.where(is_done, y, better)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from dynascope.fixes.branches import deciding, truth, words_of
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.scopes import Function, default_of, loaded, parameters, stored
from dynascope.fixes.source import Source

TITLE = "Take every turn, and keep what is finished"
MOST_TURNS = 16
"""More of them are better left by a break than computed for nothing."""


def every_turn(site: Site) -> Fix | None:
    """Only of loops over so many turns at most, whose body gives values to names of its own function."""
    source = site.source
    asked = deciding(site)
    loop = source.parent(asked) if asked is not None else None
    function = source.function(site.node)
    if asked is None or function is None or not isinstance(loop, ast.For) or loop.orelse or asked not in loop.body:
        return None
    if [type(each) for each in asked.body] != [ast.Break] or asked.orelse or not 0 < _turns(source, function, loop) <= MOST_TURNS:
        return None
    indentation = source.indentation(loop)
    if indentation is None or any(source.indentation(each) is None for each in loop.body) or not _is_plain(loop.body, asked):
        return None
    carried = _carried(function, loop)
    bound = {each.arg for each in parameters(function)} | stored(_before(function, loop))
    if not carried or not carried <= bound or stored(loop.body) & stored([loop.target]):
        return None
    torch, imports = source.torch
    done = source.fresh("is_done")
    edits = [Edit(loop.lineno, 0, loop.lineno, 0, f"{indentation}{done} = {torch}.zeros((), dtype={torch}.bool)\n")]
    condition = words_of(truth(asked.test, torch))
    edits.append(source.replaced(asked, f"{done} = {done} | ({condition})"))
    for statement in loop.body:
        edit = _masked(source, statement, carried, done, torch)
        edits += [edit] if edit is not None else []
    return Fix(TITLE, (*imports, *edits))


def _turns(source: Source, function: Function, loop: ast.For) -> int:
    """Of `range(n)`, where the text says how many; 0 where it does not."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(turns))]):
            return turns
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]):
            default = default_of(function, name)
            return default.value if isinstance(default, ast.Constant) and isinstance(default.value, int) else 0
    return 0


def _is_plain(body: Sequence[ast.stmt], asked: ast.If) -> bool:
    """Whether the turn does nothing else than give values to names, check something, and ask once whether to leave."""
    return all(
        each is asked
        or (isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name))
        or (isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name))
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and ast.unparse(each.value.func).endswith("._assert_async"))
        for each in body
    )


def _carried(function: Function, loop: ast.For) -> set[str]:
    """What a turn gives, and a later turn or what follows the loop reads."""
    given: set[str] = set()
    early: set[str] = set()
    for statement in loop.body:
        reads = loaded([statement])
        if isinstance(statement, ast.AugAssign):
            reads |= stored([statement])
        early |= reads - given
        given |= stored([statement])
    after = loaded(each for each in _statements(function) if each.lineno > (loop.end_lineno or loop.lineno))
    return given & (early | after)


def _before(function: Function, loop: ast.For) -> list[ast.stmt]:
    """Statements of the function's own block: what stands in a branch may not have been run."""
    before = [each for each in function.body if (each.end_lineno or each.lineno) < loop.lineno]
    return [each for each in before if isinstance(each, ast.Assign | ast.AnnAssign)]


def _statements(function: Function) -> Iterable[ast.stmt]:
    return (each for each in ast.walk(function) if isinstance(each, ast.stmt) and each is not function)


def _masked(source: Source, statement: ast.stmt, carried: set[str], done: str, torch: str) -> Edit | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in carried:
            return source.replaced(statement, f"{name} = {torch}.where({done}, {name}, {source.text_of(value)})")
        case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value) if name in carried:
            text = words_of(ast.BinOp(ast.Name(name), operator, value))
            return source.replaced(statement, f"{name} = {torch}.where({done}, {name}, {text})")
    return None
