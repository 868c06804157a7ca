"""A branch that gives something to a call, as to a list: the call is made in any case, and `torch.where` chooses what it gets.

if keep.any():                        ->    rows.append(torch.where(keep.any(), x.mean(0), zero))
    rows.append(x.mean(0))
else:
    rows.append(zero)

if mask.sum() > 0:                    ->    losses.append(torch.where(mask.sum() > 0, loss(x, mask), 0))
    losses.append(loss(x, mask))
return torch.stack(losses).sum()            return torch.stack(losses).sum()
"""

from __future__ import annotations

import ast

from dynascope.fixes.branches import TITLE, condition_of, deciding
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.scopes import Function, loaded, stored
from dynascope.fixes.source import Source, called_name, dotted, end_of, method_called
from dynascope.fixes.words import words_of


def given_in_any_case(site: Site) -> Fix | None:
    """Both sides make the same call, with other arguments."""
    source = site.source
    statement = deciding(site)
    if statement is None or source.indentation(statement) is None:
        return None
    match statement.body, statement.orelse:
        case [ast.Expr(value=ast.Call() as first)], [ast.Expr(value=ast.Call() as second)]:
            if not _are_one_call(first, second):
                return None
            torch, imports = source.torch
            condition = condition_of(source, statement)
            arguments = [
                one if ast.dump(one) == ast.dump(other) else _where(torch, condition, one, other)
                for one, other in zip(first.args, second.args, strict=True)
            ]
            text = words_of(ast.Call(first.func, arguments, first.keywords))
            return Fix(TITLE, (*imports, source.replaced(statement, text)))
    return None


def nothing_added(site: Site) -> Fix | None:
    """Only of a list that is summed up and nothing else: a zero more is no other sum. The witness shows that some call adds none."""
    source = site.source
    statement, function = deciding(site), source.function(site.node)
    indentation = source.indentation(statement) if statement is not None else None
    if statement is None or function is None or indentation is None or statement.orelse:
        return None
    *before, last = statement.body
    found = method_called(last.value) if isinstance(last, ast.Expr) else None
    if found is None or found[1] != "append" or len(found[2].args) != 1 or not isinstance(found[0], ast.Name):
        return None
    if not _is_summed_up(source, function, found[0].id) or not _are_its_own(source, function, statement, before):
        return None
    torch, imports = source.torch
    value = _where(torch, condition_of(source, statement), found[2].args[0], ast.Constant(0))
    rows = [*(words_of(each) for each in before), f"{found[0].id}.append({words_of(value)})"]
    end = end_of(statement)
    witness = (Edit(*end, *end, f'\n{indentation}else:\n{indentation}    raise RuntimeError("nothing is added")'),)
    edit = source.replaced(statement, f"\n{indentation}".join(rows))
    return Fix("Add zero where nothing is added: only the sum is asked for", (*imports, edit), witness)


def _are_one_call(first: ast.Call, second: ast.Call) -> bool:
    same = ast.dump(first.func) == ast.dump(second.func) and [*map(ast.dump, first.keywords)] == [*map(ast.dump, second.keywords)]
    return same and len(first.args) == len(second.args) and not any(isinstance(each, ast.Starred) for each in first.args)


def _is_summed_up(source: Source, function: Function, name: str) -> bool:
    """Made as an empty list in this function; added to, and read by `torch.stack(losses).sum()` alone."""
    torch, _ = source.torch
    made = [each for each in ast.walk(function) if isinstance(each, ast.Assign) and name in stored(each.targets)]
    if not made or not all(isinstance(each.value, ast.List) and not each.value.elts for each in made):
        return False
    read = 0
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        above = source.parent(node)
        if isinstance(above, ast.Attribute) and above.attr == "append" and isinstance(source.parent(above), ast.Call):
            continue
        is_stacked = called_name(above) == f"{torch}.stack" and isinstance(above, ast.Call) and above.args == [node] and not above.keywords
        total = source.parent(above) if is_stacked and above is not None else None
        call = source.parent(total) if isinstance(total, ast.Attribute) and total.attr == "sum" else None
        is_whole = isinstance(call, ast.Call) and not call.args and not call.keywords
        if not is_whole:
            return False
        read += 1
    return read > 0


def _are_its_own(source: Source, function: Function, statement: ast.If, before: list[ast.stmt]) -> bool:
    """Assignments to names that nothing outside the branch reads."""
    if not all(isinstance(each, ast.Assign) and all(dotted(t) and isinstance(t, ast.Name) for t in each.targets) for each in before):
        return False
    inside = set(ast.walk(statement))
    outside = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each not in inside]
    return not stored(before) & loaded(outside) and all(source.indentation(each) is not None for each in before)


def _where(torch: str, condition: ast.expr, first: ast.expr, second: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(torch), "where"), [condition, first, second], [])
