"""A branch that keeps numbers (the best loss so far, how often it was none): `torch.where` chooses, `.item()` keeps them numbers.

if loss < best:              ->  is_chosen = loss < best
    best = loss.item()           best = torch.where(is_chosen, loss.double(), best).item()
    patience = 0                 patience = torch.where(is_chosen, 0, patience + 1).item()
else:
    patience += 1
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from dynascope.fixes.branches import condition_of, deciding
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.reporting import tells
from dynascope.fixes.source import Source, called_name, dotted, method_called
from dynascope.fixes.words import words_of
from dynascope.report.syntax import assignments

TITLE = "Choose the numbers with torch.where, and take them out with .item()"
INFINITE = frozenset({"math.inf", "np.inf", "numpy.inf", "torch.inf"})


KindOf = Callable[[Source, ast.If, str], type | None]
Side = tuple[str, dict[str, ast.expr]]
"""What the condition of a side is called, and what it gives."""


def chosen_numbers(site: Site) -> Fix | None:
    """Only names of which the text itself says that they hold numbers, from the first value on."""
    return _chosen(site, _number)


def chosen_floats(site: Site) -> Fix | None:
    """Names of which the text does not say what they hold (`dt = dt * 0.5`). Where that is no float, the results are others."""
    return _chosen(site, lambda source, statement, target: _number(source, statement, target) or float)


def _chosen(site: Site, kind_of: KindOf) -> Fix | None:
    source = site.source
    statement = deciding(site)
    indentation = source.indentation(statement) if statement is not None else None
    if statement is None or indentation is None:
        return None
    torch, imports = source.torch
    rows: list[str] = []
    body, told = _without_told(source, statement)
    found = _sides(source, statement, body, rows)
    if found is None or (told and statement.orelse):
        return None
    sides, last = found
    targets = list(dict.fromkeys(name for _, side in (*sides, ("", last)) for name in side))
    for target in targets:
        kind = kind_of(source, statement, target)
        itself = ast.parse(target, mode="eval").body
        values = [side.get(target, itself) for side in (*(side for _, side in sides), last)]
        if kind is None or any(_reads(value, other) for value in values for other in targets if other != target):
            return None
        words = _value(values[-1], kind, torch)
        for (condition, _), value in reversed([*zip(sides, values[:-1], strict=True)]):
            this = _value(value, kind, torch)
            if words is None or this is None:
                return None
            first, second = _in_full([this, words], kind, torch)
            words = f"{torch}.where({condition}, {first}, {second})", True
        rows.append(f"{target} = {words[0] if words is not None else target}.item()")
    if told:
        rows += [f"if not {torch}.compiler.is_compiling() and {sides[0][0]}:", *(f"    {words}" for words in told)]
    return Fix(TITLE, (*imports, source.replaced(statement, f"\n{indentation}".join(rows)))) if targets else None


def _without_told(source: Source, statement: ast.If) -> tuple[list[ast.stmt], list[str]]:
    """A branch without what it tells at its end, and that: it is told where nothing is compiled, which an earlier fix may have asked."""
    body, told = list(statement.body), []
    while len(body) > 1 and (words := _told(source, body[-1])):
        told[:0] = words
        body.pop()
    return body, told


def _told(source: Source, statement: ast.stmt) -> list[str]:
    torch, _ = source.torch
    if tells(statement) and isinstance(statement, ast.Expr):
        return [source.text_of(statement.value)]
    match statement:
        case ast.If(test=test, body=body, orelse=[]) if source.text_of(test) == f"not {torch}.compiler.is_compiling()":
            words = [_told(source, each) for each in body]
            return [text for each in words for text in each] if all(words) else []
    return []


def _sides(
    source: Source, statement: ast.If, body: Sequence[ast.stmt], rows: list[str]
) -> tuple[list[Side], dict[str, ast.expr]] | None:
    """The sides of a chain of `elif`s, the first of which has this `body`, and what holds where none is chosen. Their conditions are given
    names in `rows`."""
    sides: list[Side] = []
    at = statement
    while True:
        given = _assignments(body)
        if given is None:
            return None
        name = source.fresh("is_chosen" if not sides else f"is_chosen_{len(sides) + 1}")
        rows.append(f"{name} = {words_of(condition_of(source, at))}")
        sides.append((name, given))
        match at.orelse:
            case [ast.If() as following]:
                at, body = following, following.body
            case rest:
                last = _assignments(rest)
                return None if last is None else (sides, last)


def _assignments(body: Sequence[ast.stmt]) -> dict[str, ast.expr] | None:
    """What each name or attribute of a name becomes, once."""
    found = assignments(body)
    return found if found is not None and all(_place(ast.parse(name, mode="eval").body) for name in found) else None


def _place(node: ast.AST) -> str:
    """A dotted name, or an item of one: `counts['skipped']`; empty for anything else."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = dotted(node.value)
        return f"{owner}[{node.slice.value!r}]" if owner else ""
    return dotted(node)


def _number(source: Source, statement: ast.If, target: str) -> type | None:
    """int or float, where every other assignment of the text gives the name a number that stands there."""
    inside = set(ast.walk(statement))
    kinds = set()
    for node in ast.walk(source.tree):
        given = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        kinds |= {_kind_of(value) for each in given for value in _items(each, node, target)}
        if node in inside or not any(_place(each) == target for each in given):
            continue
        kinds.add(_kind_of(node.value) if isinstance(node, ast.Assign | ast.AnnAssign) else None)
    if not kinds or None in kinds:
        return None
    return float if float in kinds else int


def _items(place: ast.expr, node: ast.AST, target: str) -> list[ast.expr]:
    """What a dict that is written down gives the item (`counts = {"skipped": 0}`), and a row one of several places."""
    if isinstance(node, ast.Assign) and isinstance(place, ast.Tuple) and isinstance(node.value, ast.Tuple):
        return [value for each, value in zip(place.elts, node.value.elts, strict=False) if _place(each) == target]
    table = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if not isinstance(table, ast.Dict) or not dotted(place):
        return []
    rows = zip(table.keys, table.values, strict=True)
    return [value for key, value in rows if isinstance(key, ast.Constant) and f"{dotted(place)}[{key.value!r}]" == target]


def _kind_of(value: ast.expr | None) -> type | None:
    match value:
        case ast.Constant(value=number) if type(number) in (int, float):
            return type(number)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _kind_of(operand)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant()]):
            return float
        case ast.Attribute() if dotted(value) in INFINITE:
            return float
    return None


def _value(value: ast.expr, kind: type, torch: str) -> tuple[str, bool] | None:
    """Its words, and whether they are those of a tensor. Of tensors only what is taken out as a float is a float for sure."""
    found = method_called(value)
    if found is not None and found[1] == "item" and not found[2].args and kind is float:
        return f"{_operand(found[0])}.double()", True
    if isinstance(value, ast.Call) and called_name(value) == "float" and len(value.args) == 1 and kind is float:
        return (words_of(value), False) if _kind_of(value) else (f"{_operand(value.args[0])}.double()", True)
    return (words_of(value), False) if _is_plain(value, kind) else None


def _is_plain(value: ast.expr, kind: type) -> bool:
    match value:
        case ast.Name() | ast.Attribute():
            return bool(dotted(value))
        case ast.Subscript():
            return bool(_place(value))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            return _is_plain(left, kind) and _is_plain(right, kind)
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=float() | int() as divisor)) if divisor and kind is float:
            return _is_plain(left, kind)
    return _kind_of(value) in ((int, float) if kind is float else (int,))


def _in_full(words: list[tuple[str, bool] | None], kind: type, torch: str) -> list[str]:
    """Python's floats are of 64 bits; two numbers that are chosen from would be of torch's default dtype."""
    given = [each for each in words if each is not None]
    texts = [text for text, _ in given]
    if kind is float and not any(is_tensor for _, is_tensor in given):
        texts[0] = f"{torch}.tensor({texts[0]}, dtype={torch}.float64)"
    return texts


def _reads(value: ast.expr, target: str) -> bool:
    return any(isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and _place(node) == target for node in ast.walk(value))


def _operand(node: ast.expr) -> str:
    text = words_of(node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text})"


def number_chosen(site: Site) -> Fix | None:
    """`0.9 if loss < 1 else 0.99`"""
    source, node = site.source, site.node
    found = next((n for n in (node, *source.above(node)) if isinstance(n, ast.IfExp)), None)
    kinds = {_kind_of(found.body), _kind_of(found.orelse)} if found is not None else set()
    kind = kinds.pop() if len(kinds) == 1 else None
    if found is None or kind is None or node not in ast.walk(found.test):
        return None
    torch, imports = source.torch
    first, second = _in_full([(words_of(side), False) for side in (found.body, found.orelse)], kind, torch)
    text = f"{torch}.where({words_of(condition_of(source, found))}, {first}, {second}).item()"
    return Fix(TITLE, (*imports, source.replaced(found, text)))
