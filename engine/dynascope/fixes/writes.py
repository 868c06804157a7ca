"""A branch that writes to tensors in place: they are written in any case, with what they hold where it is not taken.

if not self.ready:                   ->    is_chosen = torch.logical_not(self.ready)
    self.codes.copy_(x[:4])                self.codes.copy_(torch.where(is_chosen, x[:4], self.codes))
    self.ready.fill_(True)                 self.ready.copy_(torch.where(is_chosen, True, self.ready))
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynascope.fixes.branches import condition_of, deciding
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import Source, dotted, method_called
from dynascope.fixes.words import words_of

TITLE = "Write in any case, what torch.where chooses"


def written_in_any_case(site: Site) -> Fix | None:
    source = site.source
    statement = deciding(site)
    indentation = source.indentation(statement) if statement is not None else None
    if statement is None or indentation is None:
        return None
    torch, imports = source.torch
    name = source.fresh("is_chosen")
    then, otherwise = _rows(source, statement.body, f"{torch}.where({name}, {{0}}, {{1}})"), []
    if statement.orelse:
        otherwise = _rows(source, statement.orelse, f"{torch}.where({name}, {{1}}, {{0}})")
    if not then or otherwise is None:
        return None
    rows = [f"{name} = {words_of(condition_of(source, statement))}", *then, *otherwise]
    return Fix(TITLE, (*imports, source.replaced(statement, f"\n{indentation}".join(rows))))


def _rows(source: Source, body: Sequence[ast.stmt], choice: str) -> list[str] | None:
    """`choice`: a format of what is written where the side is taken, and of what there is. None where a statement is no such write."""
    rows = []
    for statement in body:
        if isinstance(statement, ast.With) and _is_without_gradients(statement):
            inner = _rows(source, statement.body, choice)
            if inner is None:
                return None
            rows += [f"with {source.text_of(statement.items[0].context_expr)}:", *(f"    {row}" for row in inner)]
            continue
        if isinstance(statement, ast.For) and not statement.orelse:
            inner = _rows(source, statement.body, choice)
            if not inner:
                return None
            rows += [f"for {source.text_of(statement.target)} in {source.text_of(statement.iter)}:", *(f"    {row}" for row in inner)]
            continue
        if isinstance(statement, ast.Pass):
            continue
        written = _written(source, statement)
        if written is None:
            return None
        place, value = written
        chosen = choice.format(value, place)
        rows.append(f"{place} = {chosen}" if place.endswith("]") else f"{place}.copy_({chosen})")
    # Of a block of several lines the lines inside stand further in.
    return rows


def _is_without_gradients(statement: ast.With) -> bool:
    if len(statement.items) != 1 or statement.items[0].optional_vars is not None:
        return False
    context = statement.items[0].context_expr
    return isinstance(context, ast.Call) and dotted(context.func).rpartition(".")[2] == "no_grad"


def _written(source: Source, statement: ast.stmt) -> tuple[str, str] | None:
    """The tensor, and what it becomes."""
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return _of_method(source, call) or _of_methods(source, call)
        case ast.Assign(targets=[ast.Subscript() as place], value=value):
            return source.text_of(place), source.text_of(value)
        case ast.AugAssign(target=ast.Subscript() as place, op=operator, value=value):
            return source.text_of(place), words_of(ast.BinOp(place, operator, value))
    return None


def _of_method(source: Source, call: ast.Call) -> tuple[str, str] | None:
    found = method_called(call)
    if found is None or not dotted(found[0]) or not _is_in_place(found[1]) or call.keywords:
        return None
    place, name = source.text_of(found[0]), found[1][:-1]
    given = [source.text_of(argument) for argument in call.args]
    if name in ("copy", "fill"):
        return (place, given[0]) if len(given) == 1 else None
    if name == "zero":
        return (place, "0") if not given else None
    return place, f"{place}.{name}({', '.join(given)})"


def _of_methods(source: Source, call: ast.Call) -> tuple[str, str] | None:
    """One behind the other: `self.var.mul_(keep).add_(var, alpha=rest)` becomes `self.var.mul(keep).add(var, alpha=rest)`."""
    parts: list[str] = []
    node: ast.expr = call
    while isinstance(node, ast.Call) and (found := method_called(node)) is not None:
        if not _is_in_place(found[1]) or found[1] in ("copy_", "fill_", "zero_"):
            return None  # what was there is gone
        given = [*map(source.text_of, node.args), *(f"{each.arg}={source.text_of(each.value)}" for each in node.keywords if each.arg)]
        if len(given) < len(node.args) + len(node.keywords):
            return None
        parts.append(f".{found[1][:-1]}({', '.join(given)})")
        node = found[0]
    place = source.text_of(node)
    return (place, place + "".join(reversed(parts))) if parts and dotted(node) else None


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")
