"""What to do about a branch on a tensor, in the user's own words: by what asks, and by what its sides do.

advice(Span of the `if`)   ->  "Write `y = torch.where(x.sum() > 0, x + 1, x - 1)`: both sides are computed, ..."
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Mapping, Sequence

from dynascope.report.span import Span
from dynascope.report.syntax import asking_node, assignments, condition, following, is_flag, preceding

LOGS = frozenset({"print", "log", "debug", "info", "warning", "warn", "error", "exception", "critical", "write"})


def question(place: Span, fallback: str) -> str:
    """`if x.sum() > 0`, `while err > tol`, `x.any() and y`: what needs the value, as the user writes it."""
    found = condition(place)
    if found.span is None:
        return fallback.rstrip(":")
    text = found.span.text()
    return f"{found.asker} {text}" if found.asker in ("if", "while", "assert", "not") else text


def advice(place: Span, fallback: str) -> str:
    node = asking_node(place)
    told = _advice(place, fallback, node)
    last = getattr(node, "end_lineno", None) or place.line
    return _as_written(told, [linecache.getline(place.file, line) for line in range(place.line, last + 1)])


NUMBER = re.compile(r"(?<![\w.])(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?(?![\w.])")


def _as_written(told: str, lines: Sequence[str]) -> str:
    """With numbers as they stand in the lines: `1e-6`, where a tree of Python's is written with 1e-06."""
    for number in {found for line in lines for found in NUMBER.findall(line)}:
        plain = repr(ast.literal_eval(number)) if not re.fullmatch(r"0\d+", number) else number
        if plain != number:
            told = re.sub(rf"(?<![\w.]){re.escape(plain)}(?![\w.])", number, told)
    return told


def _advice(place: Span, fallback: str, node: ast.AST | None) -> str:
    found = condition(place)
    test = getattr(node, "test", None)
    text = found.span.text() if found.span is not None else fallback.rstrip(":")
    asked = test if test is not None else _membership(text)
    kept = as_tensor(asked) if asked is not None else text
    text = text if asked is not None and kept == ast.unparse(asked) and "\n" not in text else kept
    count = _count_asked(test)
    if count is not None and isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return _advice_for_count(node, count)
    match node:
        case ast.While():
            kept = _kept_in_loop(node, text)
            return (
                f"Take a fixed number of turns and keep what is finished ({kept}), or leave the loop outside and compile its body."
            )
        case ast.Assert():
            return f"Return `{text}` as another result and assert it in the caller, or check before the call."
        case ast.IfExp():
            return _choice(f"torch.where({text}, {ast.unparse(node.body)}, {ast.unparse(node.orelse)})")
        case ast.BoolOp():
            return f"Write `{as_tensor(node)}`, which answers with a tensor, and choose with `torch.where`."
        case ast.UnaryOp():
            return f"Write `{as_tensor(node)}`, which answers with a tensor, and choose with `torch.where`."
        case ast.comprehension():
            return f"Select with a mask instead, `torch.where({text}, value, 0)`: then no element's truth is asked for."
        case ast.If():
            absent = _absent_otherwise(place, node)
            if absent is not None:
                return (
                    f"Where it does not hold `{absent}` is None, and only Python can choose between a tensor and nothing: give "
                    f"`{absent}` a tensor from the start, such as `torch.zeros(())`, and choose with "
                    f"`torch.where({text}, ..., {absent})`; or compute it in any case and return `{text}` as another result, "
                    f"by which the caller decides."
                )
            return _with_tensors(place, node.test, _advice_for_if(_with_last(place, node), text, _effect_after(place, node)))
    return f"Choose with `torch.where({text}, a, b)`, or decide from a shape or an argument."


def _absent_otherwise(place: Span, node: ast.If) -> str | None:
    """A name that one side alone gives a value, and that was None before (`loss = None`): there is nothing else to choose."""
    sides = assignments(node.body), assignments(node.orelse)
    if sides[0] is None or sides[1] is None:
        return None
    for name in sides[0].keys() ^ sides[1].keys():
        for statement in reversed(preceding(place)):
            match statement:
                case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value) if (
                    ast.unparse(target) == name
                ):
                    if isinstance(value, ast.Constant) and value.value is None:
                        return name
                    break
    return None


def _with_tensors(place: Span, test: ast.expr, told: str) -> str:
    """Where a variable that the test reads was made a number before (`value = x.max().item()`), it has to stay a tensor first."""
    names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
    for statement in reversed(preceding(place)):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
                if _kept(value) == ast.unparse(value):
                    return told
                if _is_numpy(value):
                    text = ast.unparse(value)
                    return f"Compute `{name}` with torch: `{text}` is no tensor. Then: {told[0].lower()}{told[1:]}"
                return f"Keep the tensor, `{name} = {_kept(value)}`. Then: {told[0].lower()}{told[1:]}"
    return told


LEAVES_TORCH, ENTERS_TORCH = frozenset({"numpy", "tolist"}), frozenset({"from_numpy", "as_tensor", "tensor"})


def _is_numpy(value: ast.expr) -> bool:
    """What is computed of an array or a list, which `_kept` would not make a tensor again."""
    called = {each.func.attr for each in ast.walk(value) if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)}
    return bool(called & LEAVES_TORCH) and not called & ENTERS_TORCH


def _with_last(place: Span, node: ast.If) -> ast.If:
    """What follows as its other side, where that is the function's `return` alone."""
    after = following(place, node)
    ends = isinstance(node.body[-1], ast.Return) and not node.orelse and len(after) == 1
    if ends and isinstance(after[0], ast.Return) and after[0].col_offset == node.col_offset:
        return ast.copy_location(ast.If(node.test, node.body, after), node)
    return node


def _membership(text: str) -> ast.Compare | None:
    """`item in tensor`, where nothing asks for it but what computes with it."""
    try:
        found = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    return found if isinstance(found, ast.Compare) and isinstance(found.ops[0], ast.In | ast.NotIn) else None


def as_tensor(test: ast.expr) -> str:
    """The same condition without asking for a truth or a number: `a and not b.item()` is `torch.logical_and(a, torch.logical_not(b))`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"torch.logical_not({as_tensor(operand)})"
        case ast.BoolOp(op=op, values=[first, *others]) if is_flag(first):
            # Python's own truth comes first, and what follows is not computed where it has decided.
            rest = others[0] if len(others) == 1 else ast.BoolOp(op, others)
            word = "and" if isinstance(op, ast.And) else "or"
            rest_of_it = as_tensor(rest)
            in_brackets = isinstance(ast.parse(rest_of_it, mode="eval").body, ast.BoolOp)
            return f"{_kept(first)} {word} {f'({rest_of_it})' if in_brackets else rest_of_it}"
        case ast.BoolOp(op=op, values=values):
            name = "logical_and" if isinstance(op, ast.And) else "logical_or"
            first, *others = map(as_tensor, values)
            return functools.reduce(lambda left, right: f"torch.{name}({left}, {right})", others, first)
        case ast.Compare(left=item, ops=[ast.In() | ast.NotIn() as operator], comparators=[tensor]):
            found = f"({_kept(tensor)} == {_kept(item)}).any()"
            return found if isinstance(operator, ast.In) else f"torch.logical_not({found})"
    return _kept(test)


CONVERSIONS = frozenset({"float", "int", "bool"})


def _kept(value: ast.expr) -> str:
    """The words of a value that stays a tensor where its number was taken out."""
    return ast.unparse(ast.fix_missing_locations(_Kept().visit(ast.parse(ast.unparse(value), mode="eval").body)))


class _Kept(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
                return tensor
            case ast.Call(func=ast.Name(id=name), args=[tensor], keywords=[]) if name in CONVERSIONS:
                return node if isinstance(tensor, ast.Constant) else tensor
        return node


def _count_asked(test: ast.expr | None) -> str | None:
    """What asks how many elements there are: `len(rows)`, `rows.numel()`, `rows.shape[0]`."""
    for node in ast.walk(test) if test is not None else ():
        match node:
            case ast.Call(func=ast.Name(id="len")) | ast.Call(func=ast.Attribute(attr="numel" | "size")):
                return ast.unparse(node)
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                return ast.unparse(node)
    return None


def _advice_for_count(node: ast.If | ast.IfExp | ast.While, count: str) -> str:
    known = f"How many elements there are (`{count}`) is known only at run time."
    if isinstance(node, ast.While):
        return f"{known} Leave the loop outside and compile its body, or keep all elements and a mask of those that are left."
    if isinstance(node, ast.IfExp):
        return f"{known} Keep all elements and a mask of those that count, so that there is something to compute also where it is none."
    never = ast.unparse(node.test.operand if isinstance(node.test, ast.UnaryOp) else _negated(node.test))
    return (
        f"{known} Where what follows does as well with none, leave out this `if`; where it never holds, say so before it with "
        f"`torch._check({never})`."
    )


NEGATED = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}


def _negated(test: ast.expr) -> ast.expr:
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in NEGATED:
            return ast.Compare(left, [NEGATED[type(operator)]()], [right])
    return ast.UnaryOp(ast.Not(), test)


def _kept_in_loop(node: ast.While, text: str) -> str:
    """`x = torch.where(x.max() > 1, x / 2, x)`, of the first value that the loop's body changes."""
    rows = _rows(node.body) or {}
    changed = next(((name, value) for name, value in rows.items()), None)
    if changed is None:
        return f"`torch.where({text}, new, old)`"
    return f"`{changed[0]} = torch.where({text}, {_kept(changed[1])}, {changed[0]})`"


def _advice_for_if(node: ast.If, text: str, follows: str | None) -> str:
    sides = [*node.body, *node.orelse]
    if all(map(_is_log, sides)):
        return (
            f"The branch only reports. Return `{text}` as another result and report in the caller, after the compiled function "
            "returned."
        )
    if isinstance(node.body[0], ast.Raise):
        return f"Return `{text}` as another result and raise in the caller, after the compiled function returned."
    chosen = _choice_of(node, text)
    if chosen is not None:
        return _choice(chosen)
    rows = _choices_of(node)
    if rows:
        return f"Write `is_chosen = {text}`, then {', '.join(f'`{row}`' for row in rows)}: both sides are computed and one is chosen."
    match node.body, node.orelse:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=kept, attr="copy_"), args=[new], keywords=[]))], []:
            place = ast.unparse(kept)
            return f"Write in any case, what is chosen: `{place}.copy_(torch.where({text}, {_kept(new)}, {place}))`."
    match node.body[-1]:
        case ast.Break():
            return (
                f"Take every turn, and behind this one keep each value that is finished with `torch.where({text}, value, ...)`; or "
                "leave the loop outside and compile its body."
            )
        case ast.Continue():
            return f"In place of `continue`, keep what the turn changes with `torch.where({text}, value, ...)`."
        case ast.Return() if follows is not None:
            return (
                f"What follows (`{follows}`) is not to be done where it holds, and only Python can leave it out: compile what comes "
                f"before and after in functions of their own, with `if {ast.unparse(node.test)}` between their calls."
            )
        case ast.Return(value=value) if not _is_of_tensors(value):
            given = "nothing" if value is None else f"`{ast.unparse(value)}`"
            return f"Return `{text}` as another result, and let the caller take {given} where it holds."
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Tuple):
            return (
                f"Compute what follows in any case, and return `torch.where({text}, {_kept(value)}, result)` of both results at the end; "
                f"or leave the decision to the caller, with `{text}` as another result."
            )
    done = next(filter(_is_for_python, sides), None)
    if done is not None:
        return (
            f"What is done where it holds (`{_first_line(done)}`) is for Python: return `{text}` as another result, and do it in the "
            "caller, after the compiled function returned."
        )
    return (
        f"Compute both sides and choose each result with `torch.where({text}, a, b)`, or decide from something known beforehand, "
        "such as a shape or an argument."
    )


LONGEST_STATEMENT = 60


def _first_line(statement: ast.stmt) -> str:
    line = ast.unparse(statement).partition("\n")[0]
    return line if len(line) <= LONGEST_STATEMENT else f"{line[: LONGEST_STATEMENT - 3]}..."


def _is_for_python(statement: ast.stmt) -> bool:
    """What is called for its effect, and an assignment of what is no tensor."""
    match statement:
        case ast.Expr(value=ast.Call()):
            return True
        case ast.Assign(value=value):
            return not _is_of_tensors(value)
    return False


EFFECTS = frozenset({"backward", "step"})


def _effect_after(place: Span, node: ast.If) -> str | None:
    """The first call behind an `if` that is there for what it does: `loss.backward()`."""
    for statement in following(place, node):
        for part in ast.walk(statement):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in EFFECTS:
                return ast.unparse(part)
    return None


def _choice(text: str) -> str:
    return f"Write `{text}`: both sides are computed and one is chosen."


def _choice_of(node: ast.If, text: str) -> str | None:
    """Both sides as one statement, where both only return or assign the same name."""
    if len(node.body) != 1 or len(node.orelse) > 1:
        return None
    first, second = node.body[0], node.orelse[0] if node.orelse else None
    match first, second:
        case ast.Return(value=ast.expr() as yes), ast.Return(value=ast.expr() as no):
            if _is_of_tensors(yes) and _is_of_tensors(no):
                return f"return torch.where({text}, {_kept(yes)}, {_kept(no)})"
            return None
    rows = _rows(node.body), _rows(node.orelse)
    if rows[0] is None or rows[1] is None or len({**rows[0], **rows[1]}) != 1:
        return None
    ((name, _),) = {**rows[0], **rows[1]}.items()
    return _row(name, text, rows)


MOST_ROWS = 3


def _choices_of(node: ast.If) -> list[str]:
    """A statement for each value that a side changes, in order."""
    sides = _rows(node.body), _rows(node.orelse)
    if sides[0] is None or sides[1] is None or not 0 < len({**sides[0], **sides[1]}) <= MOST_ROWS:
        return []
    return [_row(name, "is_chosen", sides) for name in {**sides[0], **sides[1]}]


def _row(name: str, text: str, sides: Sequence[Mapping[str, ast.expr] | None]) -> str:
    first, second = (_kept(side[name]) if side and name in side else name for side in sides)
    return f"{name} = torch.where({text}, {first}, {second})"


def _rows(body: Sequence[ast.stmt]) -> dict[str, ast.expr] | None:
    """What names and attributes become, where a side does nothing else, each once and of tensors or numbers."""
    found = assignments(body)
    return found if found is not None and all(map(_is_of_tensors, found.values())) else None


def _is_of_tensors(value: ast.expr | None) -> bool:
    """Whether `torch.where` may be given it, as far as the text says so."""
    match value:
        case None | ast.JoinedStr() | ast.List() | ast.Tuple() | ast.Dict() | ast.Set() | ast.Lambda():
            return False
        case ast.Constant(value=constant):
            return isinstance(constant, (bool, int, float))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="copy"))) | ast.Call(func=ast.Attribute(attr="state_dict" | "format" | "join")):
            return False
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict" | "set" | "str" | "deepcopy" | "copy")):
            return False
    return True


def _is_log(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) in LOGS
