"""What to do about a branch on a tensor, in the user's own words: by what asks, and by what its sides do.

advice(Span of the `if`)   ->  "Write `y = torch.where(x.sum() > 0, x + 1, x - 1)`: both sides are computed, ..."
"""

from __future__ import annotations

import ast
import functools

from dynascope.report.span import Span
from dynascope.report.syntax import asking_node, condition

LOGS = frozenset({"print", "log", "debug", "info", "warning", "warn", "error", "exception", "critical", "write"})


def question(place: Span, fallback: str) -> str:
    """`if x.sum() > 0`, `while err > tol`, `x.any() and y`: what needs the value, as the user writes it."""
    found = condition(place)
    if found.span is None:
        return fallback.rstrip(":")
    text = found.span.text()
    return f"{found.asker} {text}" if found.asker in ("if", "while", "assert", "not") else text


def advice(place: Span, fallback: str) -> str:
    found = condition(place)
    node = asking_node(place)
    test = getattr(node, "test", None)
    text = found.span.text() if found.span is not None else fallback.rstrip(":")
    text = as_tensor(test) if test is not None else text
    match node:
        case ast.While():
            return (
                f"Take a fixed number of turns and keep what is finished with `torch.where({text}, new, old)`, or leave the "
                "loop outside and compile its body."
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
            return _advice_for_if(node, text)
    return f"Choose with `torch.where({text}, a, b)`, or decide from a shape or an argument."


def as_tensor(test: ast.expr) -> str:
    """The same condition without asking for a truth: `a and not b` is `torch.logical_and(a, torch.logical_not(b))`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"torch.logical_not({as_tensor(operand)})"
        case ast.BoolOp(op=op, values=values):
            name = "logical_and" if isinstance(op, ast.And) else "logical_or"
            first, *others = map(as_tensor, values)
            return functools.reduce(lambda left, right: f"torch.{name}({left}, {right})", others, first)
    return ast.unparse(test)


def _advice_for_if(node: ast.If, text: str) -> str:
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
    return (
        f"Compute both sides and choose each result with `torch.where({text}, a, b)`, or decide from something known beforehand, "
        "such as a shape or an argument."
    )


def _choice(text: str) -> str:
    return f"Write `{text}`: both sides are computed and one is chosen."


def _choice_of(node: ast.If, text: str) -> str | None:
    """Both sides as one statement, where both only return or assign the same name."""
    if len(node.body) != 1 or len(node.orelse) > 1:
        return None
    first, second = node.body[0], node.orelse[0] if node.orelse else None
    match first, second:
        case ast.Return(value=ast.expr() as yes), ast.Return(value=ast.expr() as no):
            return f"return torch.where({text}, {ast.unparse(yes)}, {ast.unparse(no)})"
        case ast.Assign(targets=[target], value=yes), ast.Assign(targets=[other], value=no):
            if ast.unparse(target) == ast.unparse(other) and isinstance(target, (ast.Name, ast.Attribute)):
                return f"{ast.unparse(target)} = torch.where({text}, {ast.unparse(yes)}, {ast.unparse(no)})"
        case ast.Assign(targets=[ast.Name() as target], value=yes), None:
            name = target.id
            return f"{name} = torch.where({text}, {ast.unparse(yes)}, {name})"
        case ast.AugAssign(target=ast.Name() as target, op=op, value=value), None:
            changed = ast.unparse(ast.BinOp(ast.Name(target.id), op, value))
            return f"{target.id} = torch.where({text}, {changed}, {target.id})"
    return None


def _is_log(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) in LOGS
