"""A branch on a tensor's value: both sides are computed, and `torch.where` chooses.

if b.sum() < 0:          ->    b = torch.where(b.sum() < 0, b * -1, b)
    b = b * -1

if x.sum() > 0:          ->    return torch.where(x.sum() > 0, x * 2, x - 1)
    return x * 2
return x - 1
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.reporting import tells
from dynascope.fixes.source import Source, called_name, dotted, method_called
from dynascope.fixes.words import words_of
from dynascope.report.syntax import is_flag

Rows = list[tuple[str, ast.expr]]
"""Names, or attributes of names (`self.best`), and what they become, in order."""
TITLE = "Choose with torch.where"
DRAWS = ("random.", "np.random.", "numpy.random.")
"""Where the numbers of Python and NumPy come from."""


def chosen_values(site: Site) -> Fix | None:
    """Branches that give values to variables and attributes."""
    source = site.source
    statement = deciding(site)
    indentation = source.indentation(statement) if statement is not None else None
    if statement is None or indentation is None:
        return None
    torch, imports = source.torch
    told = _told_first(source, statement, indentation, torch)
    if told is None:
        return None
    names = _assigned(statement)
    conditions: list[tuple[str, ast.expr]] = []
    rows = _rows(statement, torch, source, conditions, len(names) > 1)
    if not rows:
        return None
    written = [*conditions, *rows]
    text = f"\n{indentation}".join(
        f"{name} = {words_of(value)}" for name, value in written
    )
    title = f"{TITLE}; what is told only where nothing is compiled" if told else TITLE
    return Fix(title, (*imports, source.replaced(statement, told + text)))


def chosen_result(site: Site) -> Fix | None:
    """`if c: return a`, with the other result in an `else` or further down."""
    source = site.source
    statement = deciding(site)
    if statement is None or source.indentation(statement) is None or len(statement.body) != 1:
        return None
    first = statement.body[0]
    block = source.block(statement)
    rest = statement.orelse or block[block.index(statement) + 1 :]
    if not isinstance(first, ast.Return) or first.value is None or not rest:
        return None
    last = rest[-1]
    if not isinstance(last, ast.Return) or last.value is None or not all(isinstance(s, ast.Assign) for s in rest[:-1]):
        return None
    if statement.orelse and len(rest) > 1:
        return None
    return _joined(source, statement, first.value, rest, last.value)


def chosen_expression(site: Site) -> Fix | None:
    """`a if c else b`"""
    source, node = site.source, site.node
    found = next((n for n in (node, *source.above(node)) if isinstance(n, ast.IfExp)), None)
    if found is None or not _within(node, found.test):
        return None
    torch, imports = source.torch
    value = _results(torch, condition_of(source, found), found.body, found.orelse)
    if value is None:
        return None
    text = words_of(value)
    is_alone = isinstance(source.parent(found), ast.Assign | ast.Return)
    return Fix(TITLE, (*imports, source.replaced(found, text if is_alone or not isinstance(value, ast.Tuple) else f"({text})")))


def _joined(source: Source, statement: ast.If, first: ast.expr, rest: Sequence[ast.stmt], last: ast.expr) -> Fix | None:
    torch, imports = source.torch
    condition = condition_of(source, statement)
    indentation = source.indentation(statement)
    if len(rest) == 1:
        value = _results(torch, condition, first, last)
        edit = source.replaced(statement, f"return {words_of(value)}", rest[0]) if value else None
        return Fix(TITLE, (*imports, edit)) if edit else None
    # What follows may give other values to what the early result is made of.
    is_early, early = source.fresh("is_early"), source.fresh("early")
    given: ast.expr = ast.Name(early)
    if isinstance(first, ast.Tuple):
        given = ast.Tuple([ast.Subscript(given, ast.Constant(place)) for place in range(len(first.elts))])
    value = _results(torch, ast.Name(is_early), given, last)
    if value is None:
        return None
    head = f"{is_early} = {words_of(condition)}\n{indentation}{early} = {source.text_of(first)}"
    return Fix(TITLE, (*imports, source.replaced(statement, head), source.replaced(last, words_of(value))))


def _results(torch: str, condition: ast.expr, first: ast.expr, last: ast.expr) -> ast.expr | None:
    if not isinstance(first, ast.Tuple) and not isinstance(last, ast.Tuple):
        return _where(torch, condition, first, last)
    if isinstance(first, ast.Tuple) and isinstance(last, ast.Tuple) and len(first.elts) == len(last.elts):
        pairs = zip(first.elts, last.elts, strict=True)
        return ast.Tuple([a if ast.dump(a) == ast.dump(b) else _where(torch, condition, a, b) for a, b in pairs])
    return None


def deciding(site: Site) -> ast.If | None:
    """The `if` that asks for the truth of the expression; of a chain of `elif`s the first, or the first behind what Python knows."""
    statement = site.source.statement(site.node)
    if not isinstance(statement, ast.If) or not _within(site.node, statement.test):
        return None
    above = site.source.parent(statement)
    while isinstance(above, ast.If) and above.orelse == [statement] and not is_pythons_own(above.test):
        statement, above = above, site.source.parent(above)
    return statement


def is_pythons_own(test: ast.expr) -> bool:
    """Whether no tensor is asked."""
    return all(map(is_pythons_own, test.values)) if isinstance(test, ast.BoolOp) else is_flag(test)


def _rows(
    statement: ast.If, torch: str, source: Source, conditions: list[tuple[str, ast.expr]], is_named: bool
) -> Rows | None:
    condition = condition_of(source, statement)
    if is_named:
        name = source.fresh("chosen" if not conditions else f"chosen_{len(conditions) + 1}")
        conditions.append((name, condition))
        condition = ast.Name(name)
    then = _assignments(statement.body)
    if len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
        otherwise = _rows(statement.orelse[0], torch, source, conditions, is_named)
    else:
        otherwise = _assignments(statement.orelse)
    if then is None or otherwise is None:
        return None
    return _merged(torch, condition, then, otherwise)


def _merged(torch: str, condition: ast.expr, then: Rows, otherwise: Rows) -> Rows | None:
    """In the order of the statements: the condition is one truth, so that what a name became is right for what follows."""
    if [name for name, _ in then] == [name for name, _ in otherwise]:
        return [(n, _where(torch, condition, a, b)) for (n, a), (_, b) in zip(then, otherwise, strict=True)]
    # One after the other: what the side that was not taken would have changed is left as it was.
    kept = [(name, _where(torch, condition, ast.Name(name), value)) for name, value in otherwise]
    return [*((name, _where(torch, condition, value, ast.Name(name))) for name, value in then), *kept]


def _assignments(body: Sequence[ast.stmt]) -> Rows | None:
    rows: Rows = []
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value) if dotted(target):
                rows.append((dotted(target), value))
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=operator, value=value) if dotted(target):
                rows.append((dotted(target), ast.BinOp(ast.Name(dotted(target)), operator, value)))
            case ast.Pass():
                continue
            case _ if tells(statement) and not rows:
                continue
            case _:
                return None
    return rows


def _told_first(source: Source, statement: ast.If, indentation: str, torch: str) -> str | None:
    """What the branch tells before it gives values, with the same question in front; None where that cannot be written."""
    told = [each for each in statement.body if tells(each)]
    others = [node for each in statement.orelse for node in ast.walk(each) if isinstance(node, ast.stmt)]
    if any(map(tells, others)) or any(source.indentation(each) is None for each in told):
        return None
    if not told:
        return ""
    test = source.operand(statement.test) if isinstance(statement.test, ast.BoolOp | ast.IfExp) else source.text_of(statement.test)
    words = [source.text_of(each.value) for each in told if isinstance(each, ast.Expr)]
    rows = [f"if not {torch}.compiler.is_compiling() and {test}:", *(f"    {text}" for text in words)]
    return "".join(f"{row}\n{indentation}" for row in rows)


def _assigned(statement: ast.If) -> list[str]:
    stored = [node for node in ast.walk(statement) if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return [dotted(node) for node in stored][: 2 if not statement.orelse else None]


def truth(test: ast.expr, torch: str) -> ast.expr:
    """The condition as a tensor of truth."""
    match test:
        case ast.Compare(left=item, ops=[ast.In() | ast.NotIn() as operator], comparators=[tensor]):
            # Of a tensor; where it is another container the results are others.
            found = ast.Call(ast.Attribute(ast.Compare(tensor, [ast.Eq()], [item]), "any"), [], [])
            return found if isinstance(operator, ast.In) else _call(torch, "logical_not", found)
        case ast.Compare(left=left, ops=[first, *operators], comparators=[middle, *others]) if others and is_asked_twice(middle):
            # Of a tensor Python would ask the first of two comparisons for its truth.
            rest = ast.Compare(middle, operators, others)
            return truth(ast.BoolOp(ast.And(), [ast.Compare(left, [first], [middle]), rest]), torch)
        case ast.Compare(left=left, ops=operators, comparators=others):
            return ast.Compare(_as_tensor(left), operators, [*map(_as_tensor, others)])
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
            return truth(tensor, torch)
        case ast.BoolOp(op=operator, values=[first, *others]) if is_flag(first):
            # Python's own truth comes first, and what follows is not computed where it has decided.
            rest = others[0] if len(others) == 1 else ast.BoolOp(operator, others)
            return _call(torch, "as_tensor", ast.BoolOp(operator, [first, truth(rest, torch)]))
        case ast.BoolOp(op=operator, values=values):
            name = "logical_and" if isinstance(operator, ast.And) else "logical_or"
            parts = [truth(value, torch) for value in values]
            joined = parts[0]
            for part in parts[1:]:
                joined = _call(torch, name, joined, part)
            return joined
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            if isinstance(operand, ast.Name | ast.Attribute):
                return ast.Compare(operand, [ast.Eq()], [ast.Constant(0)])
            return _call(torch, "logical_not", truth(operand, torch))
        case ast.Call(func=ast.Attribute(attr="any" | "all" | "isnan" | "isfinite" | "isinf")):
            return test
        case ast.Call(func=ast.Name(id="bool"), args=[argument]):
            return truth(argument, torch)
        case _:
            return ast.Compare(test, [ast.NotEq()], [ast.Constant(0)])


def is_asked_twice(node: ast.expr) -> bool:
    """What gives the same both times."""
    return isinstance(node, ast.Constant) or bool(dotted(node))


def condition_of(source: Source, asking: ast.If | ast.IfExp) -> ast.expr:
    """As a tensor: a name that a number of a tensor's was given is one again, and so is a number that is drawn."""
    torch, _ = source.torch
    function = source.function(asking)
    return _of_numbers(truth(asking.test, torch), torch, numbers_of(function) if function is not None else set())


def numbers_of(function: ast.AST) -> set[str]:
    """Names, and attributes of names, that are given numbers of tensors, and what is computed of those."""
    given: list[tuple[str, ast.expr]] = []
    for each in ast.walk(function):
        match each:
            case ast.Assign(targets=[target], value=value) | ast.AugAssign(target=target, value=value) if dotted(target):
                given.append((dotted(target), value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
                given += [(dotted(target), value) for target, value in zip(targets, values, strict=True) if dotted(target)]
    found: set[str] = set()
    while more := {name for name, value in given if _is_number(value) or _is_of_numbers(value, found)} - found:
        found |= more
    return found


def _is_of_numbers(value: ast.expr, numbers: set[str]) -> bool:
    """Where a tensor is in it too it is none; the proof says so."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        return _is_number(value.operand) or _is_of_numbers(value.operand, numbers)
    if isinstance(value, ast.BinOp):
        return any(_is_number(side) or _is_of_numbers(side, numbers) for side in (value.left, value.right))
    return dotted(value) in numbers


def _of_numbers(test: ast.expr, torch: str, taken: set[str]) -> ast.expr:
    match test:
        case ast.Call(func=ast.Attribute(attr="as_tensor"), args=[ast.BoolOp(op=operator, values=[flag, rest])]):
            return _call(torch, "as_tensor", ast.BoolOp(operator, [flag, _of_numbers(rest, torch, taken)]))
        case ast.Call(func=ast.Attribute(attr="logical_and" | "logical_or" | "logical_not"), args=parts):
            return ast.Call(test.func, [_of_numbers(part, torch, taken) for part in parts], [])
        case ast.Compare(left=left, ops=operators, comparators=others):
            if dotted(left) in taken or called_name(left).startswith(DRAWS):
                left = ast.parse(f"{torch}.tensor({words_of(left)}, dtype={torch}.float64)", mode="eval").body
            return ast.Compare(left, operators, others)
    return test


def _is_number(value: ast.expr) -> bool:
    found = method_called(value)
    is_taken_out = called_name(value) == "float" or (found is not None and found[1] == "item")
    return is_taken_out or called_name(value).startswith((*DRAWS, "statistics."))


def _as_tensor(side: ast.expr) -> ast.expr:
    """`x.item()` as a tensor of the number's own precision: `torch.where` takes no truth of Python's."""
    match side:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
            return ast.Call(ast.Attribute(tensor, "double"), [], [])
        case ast.Call(func=ast.Name(id="float"), args=[argument], keywords=[]) if not isinstance(argument, ast.Constant):
            return ast.Call(ast.Attribute(argument, "double"), [], [])
    return side


def _where(torch: str, condition: ast.expr, then: ast.expr, otherwise: ast.expr) -> ast.expr:
    return _call(torch, "where", condition, then, otherwise)


def _call(torch: str, name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(torch), name), list(arguments), [])


def _within(node: ast.AST, tree: ast.AST) -> bool:
    return any(each is node for each in ast.walk(tree))
