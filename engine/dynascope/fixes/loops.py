"""A loop that is left, or a turn that is skipped, by a value: every turn is taken, and what is finished is kept as it is.

                                            is_done = torch.zeros((), dtype=torch.bool)
for _ in range(4):                          for _ in range(4):
    better = (y + x / y) / 2                    better = (y + x / y) / 2
    if (better - y).abs().max() < 1e-3:   ->    is_done = is_done | ((better - y).abs().max() < 1e-3)
        break
    y = better                                  y = torch.where(is_done, y, better)

for row, weight in zip(rows, weights):      for row, weight in zip(rows, weights):
    if weight < 0.5:                      ->    is_skipped = weight < 0.5
        continue
    total = total + row                         total = torch.where(is_skipped, total, total + row)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from dynascope.dataclass import dataclass
from dynascope.fixes.branches import deciding, truth
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.scopes import Function, default_of, loaded, parameters, stored
from dynascope.fixes.source import Source, called_name, dotted, method_called
from dynascope.fixes.words import words_of

TITLE = "Take every turn, and keep what is finished"
SKIPS = "Take every turn whole, and keep what a skipped one would have left"
MOST_TURNS = 16
"""More of them are better left by a break than computed for nothing."""


@dataclass(frozen=True)
class Asked:
    """The `if` that ends a turn: what it gives before, and whether the loop ends with it."""

    statement: ast.If
    given: tuple[ast.Assign, ...]
    leaves: bool


def every_turn(site: Site) -> Fix | None:
    """Only of loops over so many turns at most, or over what is there anyway, whose body gives values to names of its own function."""
    source = site.source
    statement = deciding(site)
    loop = source.parent(statement) if statement is not None else None
    function = source.function(site.node)
    asked = _asked(statement) if statement is not None else None
    if asked is None or function is None or not isinstance(loop, ast.For) or loop.orelse or asked.statement not in loop.body:
        return None
    if not _may_all_be_taken(source, function, loop) or not is_plain(loop.body, asked.statement):
        return None
    carried = carried_names(function, loop) | {name for each in asked.given for name in stored([each])}
    if not _can_be_masked(source, function, loop, carried):
        return None
    return _masking(source, loop, asked, carried)


def _masking(source: Source, loop: ast.For, asked: Asked, carried: set[str]) -> Fix:
    torch, imports = source.torch
    indentation = source.indentation(loop)
    inside = source.indentation(asked.statement)
    condition = words_of(truth(asked.statement.test, torch))
    done = source.fresh("is_done" if asked.leaves else "is_skipped")
    at = done
    edits, rows = [], []
    if asked.leaves:
        edits.append(Edit(loop.lineno, 0, loop.lineno, 0, f"{indentation}{done} = {torch}.zeros((), dtype={torch}.bool)\n"))
        at = source.fresh("is_last") if asked.given else done
        left = f"{torch}.logical_not({done}) & ({condition})" if asked.given else f"{done} | ({condition})"
        rows.append(f"{at} = {left}")
    else:
        rows.append(f"{done} = {condition}")
    for each in asked.given:
        name = words_of(each.targets[0])
        rows.append(f"{name} = {torch}.where({at}, {source.text_of(each.value)}, {name})")
    if at != done:
        rows.append(f"{done} = {done} | {at}")
    edits.append(source.replaced(asked.statement, f"\n{inside}".join(rows)))
    masked = loop.body if asked.leaves else loop.body[loop.body.index(asked.statement) + 1 :]
    found = [masked_statement(source, each, carried, f"{torch}.where({done}, {{old}}, {{new}})") for each in masked]
    return Fix(TITLE if asked.leaves else SKIPS, (*imports, *edits, *(edit for edit in found if edit is not None)))


def _asked(statement: ast.If) -> Asked | None:
    *given, last = statement.body
    if statement.orelse or not isinstance(last, ast.Break | ast.Continue):
        return None
    plain = [each for each in given if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name)]
    return Asked(statement, tuple(plain), isinstance(last, ast.Break)) if len(plain) == len(given) else None


def _may_all_be_taken(source: Source, function: Function, loop: ast.For) -> bool:
    """A number of turns that the text says; else as many as a tensor or list has, which are there to be gone through."""
    turns = _turns(function, loop)
    if turns is not None:
        return 0 < turns <= MOST_TURNS
    over = loop.iter
    if called_name(over) == "range" and isinstance(over, ast.Call):
        over = over.args[-1]
        return called_name(over) == "len" or any(isinstance(n, ast.Attribute) and n.attr in ("shape", "size") for n in ast.walk(over))
    return called_name(over) in ("zip", "enumerate", "reversed") or dotted(over) != ""


def _can_be_masked(source: Source, function: Function, loop: ast.For, carried: set[str]) -> bool:
    if source.indentation(loop) is None or any(source.indentation(each) is None for each in loop.body):
        return False
    return bool(carried) and carried <= bound_names(function, loop) and not stored(loop.body) & stored([loop.target])


def _turns(function: Function, loop: ast.For) -> int | None:
    """Of `range(n)`, where the text says how many."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(turns))]):
            return turns
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]):
            default = default_of(function, name)
            return default.value if isinstance(default, ast.Constant) and isinstance(default.value, int) else 0
    return None


def is_plain(body: Sequence[ast.stmt], asked: ast.stmt | None = None) -> bool:
    """Whether the turn does nothing else than give values to names, check something, and ask once whether to leave."""
    return all(
        each is asked
        or (isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name))
        or (isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name))
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and ast.unparse(each.value.func).endswith("._assert_async"))
        for each in body
    )


def carried_names(function: Function, loop: ast.For | ast.While) -> set[str]:
    """What a turn gives, and a later turn or what follows the loop reads."""
    given: set[str] = set()
    early: set[str] = loaded([loop.test]) if isinstance(loop, ast.While) else set()
    for statement in loop.body:
        reads = loaded([statement])
        if isinstance(statement, ast.AugAssign):
            reads |= stored([statement])
        early |= reads - given
        given |= stored([statement])
    after = loaded(each for each in _statements(function) if each.lineno > (loop.end_lineno or loop.lineno))
    return given & (early | after)


def bound_names(function: Function, loop: ast.stmt) -> set[str]:
    """What has a value before the loop, by statements of the function's own block: what stands in a branch may not have been run."""
    before = [each for each in function.body if (each.end_lineno or each.lineno) < loop.lineno]
    return {each.arg for each in parameters(function)} | stored(each for each in before if isinstance(each, ast.Assign | ast.AnnAssign))


def _statements(function: Function) -> Iterable[ast.stmt]:
    return (each for each in ast.walk(function) if isinstance(each, ast.stmt) and each is not function)


def masked_statement(source: Source, statement: ast.stmt, carried: set[str], choice: str) -> Edit | None:
    """The statement with its value or the name's own, as `choice` puts `{new}` and `{old}`; a number taken out of a tensor stays one."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in carried:
            return source.replaced(statement, f"{name} = {choice.format(old=name, new=source.text_of(without_item(value)))}")
        case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value) if name in carried:
            text = words_of(ast.BinOp(ast.Name(name), operator, without_item(value)))
            return source.replaced(statement, f"{name} = {choice.format(old=name, new=text)}")
    return None


def without_item(value: ast.expr) -> ast.expr:
    """`x.sum()` of `x.sum().item()` and `float(x.sum())`."""
    found = method_called(value)
    if found is not None and found[1] == "item" and not found[2].args:
        return found[0]
    match value:
        case ast.Call(func=ast.Name(id="float"), args=[taken], keywords=[]) if not isinstance(taken, ast.Constant):
            return taken
    return value
