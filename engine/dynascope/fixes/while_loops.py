"""A `while` that asks a tensor: so many turns are taken, and what is finished is kept as it is.

                                              is_going = torch.ones((), dtype=torch.bool)
while halt(x).mean() > 0.3 and steps < 4:     for _ in range(4):
    x = torch.tanh(cell(x))               ->      is_going = is_going & (halt(x).mean() > 0.3)
    steps += 1                                    x = torch.where(is_going, torch.tanh(cell(x)), x)
                                                  steps += 1

Where the text says no number of turns, as many are taken as are likely enough, and that they were is checked.
"""

from __future__ import annotations

import ast

from dynascope.dataclass import dataclass
from dynascope.fixes.branches import truth
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.loops import MOST_TURNS, TITLE, bound_names, carried_names, is_plain, masked_statement
from dynascope.fixes.scopes import Function, default_of, loaded, stored
from dynascope.fixes.source import Source, end_of
from dynascope.fixes.words import words_of


@dataclass(frozen=True)
class Bound:
    """What is asked of tensors, how many turns there are, and the name that counts them, if one does."""

    condition: ast.expr
    turns: int
    counter: str = ""


def turns_of_a_while(site: Site) -> Fix | None:
    source, loop, function = site.source, site.source.statement(site.node), site.source.function(site.node)
    if not isinstance(loop, ast.While) or function is None or loop.orelse or not is_plain(loop.body):
        return None
    bound = _bound(function, loop)
    indentation = source.indentation(loop)
    if bound is None or indentation is None or any(source.indentation(each) is None for each in loop.body):
        return None
    carried = carried_names(function, loop)
    if bound.counter and not _is_read(function, loop, bound.counter):
        carried -= {bound.counter}
    if not carried or not carried <= bound_names(function, loop):
        return None
    return _taken(source, loop, bound, carried, indentation)


def _taken(source: Source, loop: ast.While, bound: Bound, carried: set[str], indentation: str) -> Fix | None:
    torch, imports = source.torch
    going = source.fresh("is_going")
    condition = words_of(truth(bound.condition, torch))
    inside = source.indentation(loop.body[0])
    first = loop.body[0].lineno
    turns = f"{indentation}{going} = {torch}.ones((), dtype={torch}.bool)\n{indentation}for _ in range({bound.turns}):\n"
    edits = [
        Edit(loop.lineno, 0, first, 0, f"{turns}{inside}{going} = {going} & ({condition})\n"),
        *(masked_statement(source, each, carried, f"{torch}.where({going}, {{new}}, {{old}})") for each in loop.body),
    ]
    title = TITLE
    if not bound.counter:
        after = end_of(loop)[0] + 1
        if after > len(source.lines):
            return None
        words = f"more than {bound.turns} turns"
        check = f'{indentation}{torch}._assert_async({torch}.logical_not({going} & ({condition})), "{words}")\n'
        edits.append(Edit(after, 0, after, 0, check))
        title = f"Take {bound.turns} turns, and keep what is finished (where that is not enough it is an error)"
    return Fix(title, (*imports, *(edit for edit in edits if edit is not None)))


def _bound(function: Function, loop: ast.While) -> Bound | None:
    """`... and steps < 4`, where each turn counts one; without such a part as many as are taken anyway."""
    parts = loop.test.values if isinstance(loop.test, ast.BoolOp) and isinstance(loop.test.op, ast.And) else [loop.test]
    for part in parts:
        match part:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Lt()], comparators=[limit]) if _counts_turns(loop, name):
                rest = [each for each in parts if each is not part]
                most, start = _number(function, loop, limit), _number(function, loop, ast.Name(name))
                if not rest or most is None or start is None or not 0 < most - start <= MOST_TURNS:
                    return None
                condition = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
                return Bound(condition, most - start, name)
    return Bound(loop.test, MOST_TURNS)


def _counts_turns(loop: ast.While, name: str) -> bool:
    given = [each for each in loop.body if name in stored([each])]
    match given:
        case [ast.AugAssign(op=ast.Add(), value=ast.Constant(value=1))]:
            return True
    return False


def _number(function: Function, loop: ast.While, node: ast.expr) -> int | None:
    """Of a number, of a parameter's default, or of a name that was given one right before."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.Name):
        return None
    given = [each for each in function.body if isinstance(each, ast.Assign) and each.lineno < loop.lineno and node.id in stored([each])]
    if given:
        value = given[-1].value
        return value.value if isinstance(value, ast.Constant) and type(value.value) is int and len(given) == 1 else None
    default = default_of(function, node.id)
    return default.value if isinstance(default, ast.Constant) and type(default.value) is int else None


def _is_read(function: Function, loop: ast.While, name: str) -> bool:
    """By anything but the count and the question."""
    others = [each for each in loop.body if name not in stored([each])]
    after = [each for each in function.body if each.lineno > (loop.end_lineno or loop.lineno)]
    return name in loaded([*others, *after])
