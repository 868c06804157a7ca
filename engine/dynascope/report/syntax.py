"""What stands at a place of the user's source, by Python's own grammar.

condition(Span at `if x.sum() > 0:`)                    ->  Condition("if", Span of `x.sum() > 0`)
assigned_names(Span of `a.split(3)` in `q, k = a.split(3)`)  ->  ("q", "k")
built_expression(Span of the whole `nn.Sequential(...)`, "1")  ->  Span of its second argument
parsed("x = 1")                                             ->  its tree
"""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, cast

from dynascope.dataclass import dataclass
from dynascope.report.span import Span

Asker = Literal["if", "elif", "while", "assert", "and", "or", "not", "conditional expression", "comprehension", ""]


Placed = ast.stmt | ast.expr | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern
PLACED = (ast.stmt, ast.expr, ast.excepthandler, ast.arg, ast.keyword, ast.alias, ast.pattern)
"""The nodes that have a place in the text."""
HAVE_BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.With, ast.Try)


@dataclass(frozen=True, slots=True)
class Condition:
    """What asked for the truth of a value, and the expression it asked about."""

    asker: Asker
    span: Span | None


IGNORED = ("ignore", None, Warning, None, 0)


def parsed(text: str | bytes, mode: str = "exec") -> Any:
    """The tree of what the program's own compilation has warned about, or will: nothing is said here."""
    with unsaid():
        return ast.parse(text, mode=mode)


@contextmanager
def unsaid() -> Iterator[None]:
    """Nothing is warned of. `warnings.catch_warnings` would do more: after it, warnings that the program has shown once are shown
    again."""
    filters = cast(list, warnings.filters)
    filters.insert(0, IGNORED)
    try:
        yield
    finally:
        filters.remove(IGNORED)


def condition(span: Span) -> Condition:
    """The innermost thing at the place that decides by a truth; no asker where the source cannot be read."""
    found = _asking(span)
    return Condition("", None) if found is None else Condition(found[1], _span_of(span.file, found[2]))


def asking_node(span: Span) -> ast.AST | None:
    """The statement or expression that `condition` speaks of."""
    found = _asking(span)
    return None if found is None else found[0]


def _asking(span: Span) -> tuple[ast.AST, Asker, ast.expr] | None:
    """Where the place has no columns, the line's statement; else the smallest test around the place, or one inside it."""
    found: list[tuple[ast.AST, Asker, ast.expr]] = [
        (node, asker, test) for node in _nodes_on(span) for asker, test in _tests(node)
    ]
    if span.column is None:
        found = [row for row in found if isinstance(row[0], (ast.If, ast.While, ast.Assert))] or found
        return max(found, key=lambda row: _extent(row[2]), default=None)
    around = sorted((row for row in found if _covers(row[2], span)), key=lambda row: _extent(row[2]))
    if not around:
        return min((row for row in found if _covers(row[0], span)), key=lambda row: _extent(row[2]), default=None)
    innermost, *others = around
    # Later Pythons place the branch at the operand of a `not` or `and`: the whole condition is what is meant.
    for row in others:
        innermost = row if _decides(row[2], innermost[0]) else innermost
    return innermost


def _decides(test: ast.AST, part: ast.AST) -> bool:
    """Whether a test is `part`, or made of it by `not`, `and` and `or`."""
    operands = [test.operand] if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else getattr(test, "values", [])
    return test is part or (isinstance(test, (ast.UnaryOp, ast.BoolOp)) and any(_decides(each, part) for each in operands))


def is_flag(test: ast.expr) -> bool:
    """What is asked of the object or of the kind of an argument, as in `self.training and x.sum() > 0`: no tensor, as far as words tell."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return is_flag(operand)
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in ("isinstance", "hasattr", "callable")
    return False


def assigned_names(span: Span) -> tuple[str, ...]:
    """The variables that take the value of the expression at the place, where it is all of an assignment's right side."""
    for node in _nodes_on(span):
        if isinstance(node, ast.Assign) and _is_at(node.value, span):
            return _target_names(node.targets[-1])
        if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None and _is_at(node.value, span):
            return _target_names(node.target)
        if isinstance(node, ast.AugAssign) and _is_at(node, span):
            return _target_names(node.target)
    return ()


SHORTEST_CUT = 40
"""An expression longer than this says nothing beside a line."""
TRANSPARENT = (ast.IfExp, ast.Tuple, ast.List, ast.Starred, ast.Await, ast.NamedExpr, ast.GeneratorExp, ast.ListComp)
"""What holds a value as it is."""


@lru_cache(maxsize=4096)
def part_of_statement(span: Span) -> str | None:
    """The expression at the place, where an assignment or a `return` goes on with it and does not give it as it is; empty where nobody
    takes what the statement gives (`optimizer.step()`)."""
    nodes = list(_nodes_on(span))
    if any(isinstance(each, ast.Expr) and _is_at(each.value, span) for each in nodes):
        return ""
    node = next((each for each in nodes if isinstance(each, ast.expr) and _is_at(each, span)), None)
    whole = next((each for each in nodes if isinstance(each, (ast.Assign, ast.AnnAssign, ast.Return)) and _covers(each, span)), None)
    if node is None or whole is None or whole.value is None:
        return None
    waiting = [whole.value]
    while waiting:
        given = waiting.pop()
        if given is node or _is_at(given, span):
            return None
        if isinstance(given, TRANSPARENT):
            waiting += [each for each in ast.iter_child_nodes(given) if isinstance(each, ast.expr)]
    text = ast.unparse(node)
    return text if len(text) <= SHORTEST_CUT else "…"


def built_expression(span: Span, name: str) -> Span:
    """The part of a construction that made the member `name`: an argument, an item, the right side of an assignment."""
    for node in _nodes_on(span):
        if isinstance(node, ast.Assign) and any(_is_at(target, span) for target in node.targets):
            return _span_of(span.file, node.value)
    call = _call_at(span)
    part = _part(call, name) if call is not None else None
    return span if part is None else _span_of(span.file, part)


SHORT = (ast.Name, ast.Attribute, ast.Subscript)
"""Arguments that serve as a name."""


def argument_texts(span: Span, parameters: Sequence[str]) -> dict[str, str]:
    """What a call gives for each parameter, where it is short enough to serve as a name."""
    call = _call_at(span)
    if call is None or any(isinstance(argument, ast.Starred) for argument in call.args):
        return {}
    given = dict(zip(parameters, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg and keyword.arg in parameters}
    return {name: ast.unparse(value) for name, value in given.items() if isinstance(value, SHORT)}


def callee(span: Span) -> Span:
    """What is called at the place: `model` of `model(x)`. The place itself where there is no call."""
    call = _call_at(span)
    return span if call is None else _span_of(span.file, call.func)


def owner_texts(span: Span, is_called_there: bool = True) -> dict[str, str]:
    """What `self` is of what was asked for at the place: `model` of `torch.compile(model)`, and of `model` itself where it is called."""
    if _call_at(span) is not None:
        return argument_texts(span, ("self",))
    if not is_called_there:
        return {}
    text = statement_text(span)
    return {"self": text} if text else {}


def collected_texts(span: Span, named: int, positional: str, keywords: str) -> dict[str, str]:
    """What a call gives for the places of `*args` and `**kwargs`, behind the `named` parameters: `kwargs['input_ids']` is called
    `ids`, or, where the call gives an expression that has no name, as the call names it. Of `f(**batch)` it is `batch['input_ids']`."""
    call = _call_at(span)
    if call is None or any(isinstance(argument, ast.Starred) for argument in call.args):
        return {}
    given = {f"{positional}[{number}]": value for number, value in enumerate(call.args[named:]) if positional}
    found = {place: ast.unparse(value) for place, value in given.items() if isinstance(value, SHORT)}
    for keyword in call.keywords if keywords else ():
        if keyword.arg is not None:
            is_short = isinstance(keyword.value, SHORT)
            found[f"{keywords}[{keyword.arg!r}]"] = ast.unparse(keyword.value) if is_short else keyword.arg
        elif isinstance(keyword.value, SHORT):
            found[keywords] = ast.unparse(keyword.value)
    return found


def statement_text(span: Span) -> str:
    """The expression at the place as one line, also where it spans several."""
    for node in _nodes_on(span):
        if isinstance(node, ast.expr) and _is_at(node, span):
            return ast.unparse(node)
        if isinstance(node, ast.For) and _is_at(node, span):
            target = node.target
            names = ", ".join(map(ast.unparse, target.elts)) if isinstance(target, ast.Tuple) and target.elts else ast.unparse(target)
            return f"for {names} in {ast.unparse(node.iter)}"
    return span.text().removesuffix(":")


SO_FAR = "[... {}] so far"
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def comprehension_loops(span: Span) -> str:
    """`for row in rows if row.any()` of the comprehension at the place; empty where there is none."""
    found = _comprehension(span)
    return " ".join(ast.unparse(each).strip() for each in found.generators) if found is not None else ""


def comprehension_source(span: Span) -> str:
    found = _comprehension(span)
    return ast.unparse(found.generators[0].iter) if found is not None else ""


def _comprehension(span: Span) -> ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | None:
    return next((node for node in _nodes_on(span) if isinstance(node, COMPREHENSIONS) and _is_at(node, span)), None)


def formatted_part(span: Span, number: int) -> str:
    """`f"{n}"`, what stands between one pair of braces of the f-string at the place; empty where there is none."""
    whole = next((node for node in _nodes_on(span) if isinstance(node, ast.JoinedStr) and _is_at(node, span)), None)
    parts = [each for each in whole.values if isinstance(each, ast.FormattedValue)] if whole is not None else []
    return ast.unparse(ast.JoinedStr([parts[number]])) if number < len(parts) else ""


def _part(call: ast.Call, name: str) -> ast.expr | None:
    arguments = call.args
    if len(arguments) == 1 and isinstance(arguments[0], (ast.List, ast.Tuple)):
        arguments = arguments[0].elts
    if len(arguments) == 1 and isinstance(arguments[0], ast.Call) and arguments[0].args:
        inner = arguments[0].args[0]
        arguments = inner.elts if isinstance(inner, (ast.List, ast.Tuple)) else arguments
    if len(arguments) == 1 and isinstance(arguments[0], ast.Dict):
        pairs = zip(arguments[0].keys, arguments[0].values, strict=True)
        return next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name), None)
    for argument in arguments:
        if isinstance(argument, ast.Tuple) and len(argument.elts) == 2:
            key, value = argument.elts
            if isinstance(key, ast.Constant) and key.value == name:
                return value
    if any(isinstance(argument, ast.Starred) for argument in arguments):
        return None
    return arguments[int(name)] if name.isdigit() and int(name) < len(arguments) else None


def _tests(node: ast.AST) -> Iterator[tuple[Asker, ast.expr]]:
    match node:
        case ast.If():
            yield "if", node.test
        case ast.While():
            yield "while", node.test
        case ast.Assert():
            yield "assert", node.test
        case ast.IfExp():
            yield "conditional expression", node.test
        case ast.BoolOp():
            for value in node.values[:-1]:
                yield ("and" if isinstance(node.op, ast.And) else "or"), value
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node.operand
        case ast.comprehension():
            for test in node.ifs:
                yield "comprehension", test


def _target_names(target: ast.expr) -> tuple[str, ...]:
    if isinstance(target, (ast.Tuple, ast.List)):
        names = [_target_names(element) for element in target.elts]
        return tuple(name[0] if len(name) == 1 else "" for name in names)
    return (ast.unparse(target),) if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)) else ()


def _nodes_on(span: Span) -> list[ast.AST]:
    """The nodes of the file that have something on the place's first line."""
    return _by_line(span.file).get(span.line, [])


def _by_line(file: str) -> dict[int, list[ast.AST]]:
    return _index("".join(linecache.getlines(file)))


@lru_cache(maxsize=32)
def _index(text: str) -> dict[int, list[ast.AST]]:
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    lines: dict[int, list[ast.AST]] = {}
    for node in ast.walk(tree):
        first, last = _lines_of(node)
        for line in range(first, last + 1):
            lines.setdefault(line, []).append(node)
    return lines


def _lines_of(node: ast.AST) -> tuple[int, int]:
    """A statement with a body counts by its head: what is inside has lines of its own."""
    if isinstance(node, ast.comprehension):
        return node.target.lineno, _last_line((node.ifs or [node.iter])[-1])
    if not isinstance(node, PLACED):
        return 1, 0
    if isinstance(node, (ast.If, ast.While)):
        return node.lineno, _last_line(node.test)
    if isinstance(node, HAVE_BODIES):
        return node.lineno, node.lineno
    return node.lineno, _last_line(node)


def _last_line(node: Placed) -> int:
    return node.lineno if node.end_lineno is None else node.end_lineno


def _end(node: Placed) -> tuple[int, int]:
    return _last_line(node), node.col_offset if node.end_col_offset is None else node.end_col_offset


def _span_of(file: str, node: ast.expr) -> Span:
    return Span(file, node.lineno, node.col_offset, *_end(node))


def _call_at(span: Span) -> ast.Call | None:
    return next((node for node in _nodes_on(span) if isinstance(node, ast.Call) and _is_at(node, span)), None)


def _is_at(node: Placed, span: Span) -> bool:
    place = (node.lineno, node.col_offset, *_end(node))
    return place == (span.line, span.column, span.last_line, span.end_column)


def _covers(node: ast.AST, span: Span) -> bool:
    """Whether the place lies inside the node; a place without columns does where it begins on the node's first line."""
    if not isinstance(node, PLACED):
        return False
    if span.column is None:
        return node.lineno <= span.line <= _last_line(node)
    start, end = (span.line, span.column), (span.last_line, span.end_column or 0)
    return (node.lineno, node.col_offset) <= start and end <= _end(node)


def _extent(node: ast.expr) -> tuple[int, int]:
    line, column = _end(node)
    return line - node.lineno, column - node.col_offset


def following(span: Span, node: ast.stmt) -> list[ast.stmt]:
    """The statements of the innermost function around a statement that come after it, in the text's order."""
    return [each for each in _statements_around(span.file, node.lineno) if each.lineno > _last_line(node)]


def preceding(span: Span) -> list[ast.stmt]:
    """The statements of the innermost function around a place that begin before its line, in the text's order."""
    return [each for each in _statements_around(span.file, span.line) if each.lineno < span.line]


def _statements_around(file: str, line: int) -> list[ast.stmt]:
    functions = [
        each
        for nodes in _by_line(file).values()
        for each in nodes
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.lineno <= line <= _last_line(each)
    ]
    inside = ast.walk(max(functions, key=lambda each: each.lineno)) if functions else ()
    return sorted((each for each in inside if isinstance(each, ast.stmt)), key=lambda each: each.lineno)


def statement_lines(file: str) -> set[int]:
    """The lines on which a statement inside a function begins, docstrings left out."""
    return {
        node.lineno
        for nodes in _by_line(file).values()
        for node in nodes
        if isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global)
        )
    }


def function_around(text: str | bytes, line: int) -> str | None:
    """The qualified name of the innermost function around a line, as Python names it; None outside of all functions."""
    found, best = None, 0

    def visit(node: ast.AST, prefix: str) -> None:
        nonlocal found, best
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                first = min((d.lineno for d in child.decorator_list), default=child.lineno)
                is_function = not isinstance(child, ast.ClassDef)
                if is_function and first <= line <= (child.end_lineno or first) and first > best:
                    found, best = name, first
                name += ".<locals>." if is_function else "."
            visit(child, name)

    try:
        visit(parsed(text), "")
    except SyntaxError:
        return None
    return found


def _is_one_place(target: ast.expr) -> bool:
    """A name, an attribute, or an item by a name that stands there: `counts["skipped"]`."""
    is_item = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    return isinstance(target, (ast.Name, ast.Attribute)) or is_item


def assignments(body: Sequence[ast.stmt]) -> dict[str, ast.expr] | None:
    """What names, attributes and items become, each once, where the statements do nothing else: `{"n": n + 1}` of `n += 1`."""
    found: dict[str, ast.expr] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[target], value=value) if _is_one_place(target):
                pass
            case ast.AugAssign(target=target, op=operator, value=value) if _is_one_place(target):
                value = ast.BinOp(ast.parse(ast.unparse(target), mode="eval").body, operator, value)
            case ast.Pass():
                continue
            case _:
                return None
        name = ast.unparse(target)
        if name in found:
            return None
        found[name] = value
    return found
