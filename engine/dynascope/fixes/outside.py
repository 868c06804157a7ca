"""What only Python can decide stays in a plain function of the old name; what was captured around it become compiled functions.

@torch.compile                            @torch.compile
def step(x, y):                           def step_compiled(x, y):
    loss = (model(x) - y).abs().mean()        loss = (model(x) - y).abs().mean()
    if loss.item() > limit:        ->         return loss
        return None
    return loss                           def step(x, y):
                                              loss = step_compiled(x, y)
                                              if loss.item() > limit: ...

No work leaves the compiled code: a statement that Python keeps may ask a question of a tensor and nothing more, or there is no fix.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from dynascope.dataclass import dataclass
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Parts, Site
from dynascope.fixes.liveness import bound_of
from dynascope.fixes.scopes import Function, parameters
from dynascope.fixes.source import end_of
from dynascope.report.facts import ValueFact
from dynascope.report.user_files import same_file

BRANCH = "data-dependent-branch"
TITLE = "Leave to Python what it must decide, between compiled functions"
KEPT_OUT = "torch.compiler.disable(recursive=False)"
LOOPS = ast.For | ast.While | ast.AsyncFor
COMPOUND = ast.If | ast.For | ast.While | ast.With | ast.Try
UNMOVED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Delete
WAITS = ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
SHARING = frozenset({"detach", "getitem"})
SIZES = re.compile(r"\[([^\]]*)\]")


def decided_outside(site: Site) -> Fix | None:
    """Of the function that the program has compiled, by a decorator, a call or with its module, and of the statement that broke."""
    compiled = _by_decorator(site) or _by_call(site) or _by_module(site)
    if compiled is None or any(isinstance(node, WAITS) for node in ast.walk(compiled.function)):
        return None
    split = _Split(site, compiled)
    if not split.is_made():
        return None
    outer = split.qualified(compiled.function.name) if compiled.is_listened_to else ""
    return Fix(TITLE, split.edits(), parts=(Parts(outer, tuple(map(split.qualified, split.names))),))


@dataclass(frozen=True, slots=True)
class _Compiled:
    """`decorator`: the text of one that compiles as the program asked for it. `edits` take that back where it is no decorator. `others`:
    decorators that the function keeps. `is_listened_to`: its calls are no longer those of something compiled."""

    function: ast.FunctionDef
    decorator: str
    others: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    is_listened_to: bool = True


def _by_decorator(site: Site) -> _Compiled | None:
    at = site.compiled_at
    if at is None or not same_file(at.file, site.file):
        return None
    for node in ast.walk(site.source.tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        for each in node.decorator_list:
            if each.lineno <= at.line <= end_of(each)[0]:
                others = tuple(site.source.text_of(other) for other in node.decorator_list if other is not each)
                return _Compiled(node, site.source.text_of(each), others)
    return None


def _by_call(site: Site) -> _Compiled | None:
    """`torch.compile(step)` and `torch.compile(self.step, dynamic=True)`: the function itself takes the place of the call."""
    at = site.compiled_at
    call = site.source.expression_at(at) if at is not None and same_file(at.file, site.file) else None
    match call:
        case ast.Call(args=[ast.Name(id=name) | ast.Attribute(attr=name) as given]):
            pass
        case _:
            return None
    decorator = _as_decorator(site, call)
    wanted = ast.ClassDef if isinstance(given, ast.Attribute) else ast.Module | Function
    for node in ast.walk(site.source.tree):
        if not isinstance(node, ast.FunctionDef) or node.name != name or not isinstance(site.source.parent(node), wanted):
            continue
        if decorator is not None and _cuts(site, node):
            others = tuple(map(site.source.text_of, node.decorator_list))
            return _Compiled(node, decorator, others, (_taken_back(site, call, given),))
    return None


def _by_module(site: Site) -> _Compiled | None:
    """`torch.compile(model)`: what that gives is more than a function, so it stays, and leaves the `forward` to Python."""
    at, where = site.compiled_at, site.function_at
    call = site.source.expression_at(at) if at is not None and same_file(at.file, site.file) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or where is None or not same_file(where.file, site.file):
        return None
    for node in ast.walk(site.source.tree):
        if isinstance(node, ast.FunctionDef) and node.name == "forward" and node.lineno == where.line and not node.decorator_list:
            decorator = _as_decorator(site, call)
            return None if decorator is None else _Compiled(node, decorator, (KEPT_OUT,), is_listened_to=False)
    return None


def _as_decorator(site: Site, call: ast.Call) -> str | None:
    """What asks for the same in front of a function; settings are seen there too where they are plain."""
    text_of = site.source.text_of
    if not all(each.arg and isinstance(each.value, ast.Constant) for each in call.keywords):
        return None
    settings = ", ".join(f"{each.arg}={text_of(each.value)}" for each in call.keywords)
    return text_of(call.func) + (f"({settings})" if settings else "")


def _taken_back(site: Site, call: ast.Call, given: ast.expr) -> Edit:
    """`step = torch.compile(step)` goes as a whole, where something is left of its block."""
    source, statement = site.source, site.source.statement(call)
    match statement:
        case ast.Assign(targets=[target]) if source.text_of(target) == source.text_of(given):
            blocks = [getattr(source.parent(statement), each, []) for each in ("body", "orelse", "finalbody")]
            last = end_of(statement)[0]
            alone = not any(
                other is not statement and other.lineno <= last and statement.lineno <= end_of(other)[0]
                for block in blocks if statement in block for other in block
            )  # fmt: skip
            if alone and any(statement in block and len(block) > 1 for block in blocks):
                return Edit(statement.lineno, 0, last + 1, 0, "")
    return source.replaced(call, source.text_of(given))


@dataclass(frozen=True, slots=True)
class _Row:
    statements: list[ast.stmt]
    in_loop: bool
    question: ast.expr | None = None
    """What Python asks right behind it, where that is work."""


class _Split:
    """`cuts` are the statements that Python keeps; each row of statements between them becomes a function."""

    def __init__(self, site: Site, compiled: _Compiled) -> None:
        self.source, self.function, self._compiled = site.source, compiled.function, compiled
        function = compiled.function
        owner = self.source.parent(function)
        given = [each.arg for each in parameters(function)]
        self._is_method = isinstance(owner, ast.ClassDef) and bool(given)
        self._self = given[0] if self._is_method else ""
        self._bound = bound_of(function)
        self._values = [(value, _lines(value, site.file)) for value in site.captured]
        self.cuts = _cuts(site, function)
        self._is_refused = not self.cuts or bool(isinstance(owner, ast.ClassDef) and compiled.others and compiled.is_listened_to)
        self._rows: list[_Row] = []
        self._asked = self.source.expression_at(site.finding.span) if site.finding.span and site.finding.code == BRANCH else None
        self.names: list[str] = []

    def is_made(self) -> bool:
        self._divide(self.function.body, False, True)
        if self._is_refused or not self._rows or self._bound.is_seen_otherwise([each.statements for each in self._rows]):
            return False
        stem = self.function.name.strip("_")
        ends = ORDINALS if len(self._rows) > 1 else ("compiled",)
        if len(self._rows) > len(ORDINALS):
            return False
        self.names = [self.source.fresh(f"{stem}_{end}", self._is_method) for end, _ in zip(ends, self._rows, strict=False)]
        return self.source.indentation(self.function.body[0]) is not None

    def qualified(self, name: str) -> str:
        above = [node.name for node in self.source.above(self.function) if isinstance(node, Function | ast.ClassDef)]
        return ".".join([*reversed(above), name])

    def edits(self) -> tuple[Edit, ...]:
        function, source = self.function, self.source
        indentation = source.lines[function.lineno - 1][: function.col_offset].decode()
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        calls, texts = [], []
        answer = source.fresh("is_met")
        for name, row in zip(self.names, self._rows, strict=True):
            call, text = self._part(name, row, answer, indentation)
            calls.append(Edit(row.statements[0].lineno, row.statements[0].col_offset, *end_of(row.statements[-1]), call))
            calls += [source.replaced(row.question, answer)] if row.question is not None else []
            texts.append(text)
        apart = "\n" * (2 if isinstance(source.parent(function), ast.Module) else 1)
        above = "".join(f"{text}{apart}" for text in texts)
        above += "".join(f"{indentation}@{each}\n" for each in self._compiled.others)
        return (Edit(first, 0, function.lineno, 0, above), *calls, *self._compiled.edits)

    def _part(self, name: str, made: _Row, answer: str, indentation: str) -> tuple[str, str]:
        """The call that takes the row's place, and the function."""
        row, inside = made.statements, self.source.indentation(self.function.body[0]) or ""
        asked = [] if made.question is None else [ast.copy_location(ast.Expr(made.question), made.question)]
        inputs, _ = self._bound.around([*row, *asked], made.in_loop)
        outputs = self._bound.around(row, made.in_loop)[1]
        if self._self in inputs:
            inputs.remove(self._self)
        collects = None if outputs else _collected(row[-1])
        if collects is not None and collects[0] in inputs and not self._bound.is_used_again(collects[0], row):
            inputs.remove(collects[0])
        else:
            collects = None
        owner, given = (f"{self._self}.", [self._self, *inputs]) if self._is_method else ("", inputs)
        call = f"{owner}{name}({', '.join(inputs)})"
        lines = [f"{indentation}@{self._compiled.decorator}", f"{indentation}def {name}({', '.join(given)}):"]
        declared = self._bound.declared(row)
        lines += [f"{inside}{word} {', '.join(names)}" for word, names in declared.items() if names]
        lines += self._moved(row, inside)
        if made.question is not None:
            lines.append(f"{inside}{answer} = {self.source.text_of(made.question)}")
            outputs = [*outputs, answer]
        if any(isinstance(node, ast.Return) for each in row for node in ast.walk(each)):
            return f"return {call}", "\n".join(lines) + "\n"
        if collects is not None:
            # A list that grows would be another one at every call of a compiled function.
            into, value = collects
            lines = [*lines[: len(lines) - (end_of(row[-1])[0] - row[-1].lineno + 1)], f"{inside}return {self.source.operand(value)}"]
            call = f"{into}.append({call})"
        elif outputs:
            lines.append(f"{inside}return {', '.join(outputs)}")
            call = f"{', '.join(outputs)} = {call}"
        return call, "\n".join(lines) + "\n"

    def _moved(self, row: list[ast.stmt], inside: str) -> list[str]:
        before = self.source.lines[row[0].lineno - 1][: row[0].col_offset].decode()
        lines = [line.decode() for line in self.source.lines[row[0].lineno - 1 : end_of(row[-1])[0]]]
        return [inside + line.removeprefix(before) if line.startswith(before) else line for line in lines]

    def _divide(self, block: Sequence[ast.stmt], in_loop: bool, is_last: bool) -> None:
        """`is_last`: nothing of the function comes after the block."""
        row: list[ast.stmt] = []
        kept = [each in self.cuts or isinstance(each, UNMOVED) or _is_elif(self.source.lines, each) for each in block]
        for number, statement in enumerate(block):
            ends = is_last and number == len(block) - 1
            # A return in the midst of a row would have to say so to who calls it; at the end of all, the call is returned.
            if not kept[number] and not self._leaves(statement, is_last and not any(kept[number:])):
                row.append(statement)
                continue
            question = self._question(statement, row)
            self._end(row, in_loop, question)
            row = []
            self._keep(statement, in_loop, ends, question is not None)
        self._end(row, in_loop)

    def _question(self, statement: ast.stmt, row: list[ast.stmt]) -> ast.expr | None:
        """What an `if` asks, where that is work, nothing in it broke but the asking, and there is a row that it can be computed in."""
        is_whole = isinstance(statement, ast.If) and statement.test is self._asked and "\n" not in self.source.text_of(statement.test)
        if not is_whole or not self._made(row) or _is_elif(self.source.lines, statement):
            return None
        return self._asked if any(map(is_work, self._made_in(statement.lineno, statement.lineno))) else None

    def _keep(self, statement: ast.stmt, in_loop: bool, is_last: bool, is_answered: bool) -> None:
        if not isinstance(statement, COMPOUND):
            self._is_refused |= any(map(is_work, self._made([statement])))
            return
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(statement, "handlers", [])]
        header = self._made_in(statement.lineno, statement.body[0].lineno - 1)
        self._is_refused |= not is_answered and any(map(is_work, header))
        self._is_refused |= statement.body[0].lineno == statement.lineno
        for block in blocks:
            self._divide(block, in_loop or isinstance(statement, LOOPS), is_last and isinstance(statement, ast.If | ast.With))

    def _end(self, row: list[ast.stmt], in_loop: bool, question: ast.expr | None = None) -> None:
        while row and not self._made(row[:1]):
            row = row[1:]
        ends_all = any(isinstance(node, ast.Return) for each in row for node in ast.walk(each))
        while row and question is None and not ends_all and not self._made(row[-1:]):
            row = row[:-1]
        made = self._made(row)
        if not made or (question is None and not any(map(is_work, made)) and all(map(self._is_number, self._bound.read(row)))):
            return
        texts = [node for each in row for node in ast.walk(each) if isinstance(node, ast.Constant | ast.JoinedStr)]
        self._is_refused |= any(end_of(node)[0] > node.lineno for node in texts)
        self._is_refused |= any(self.source.indentation(each) is None for each in row)
        self._is_refused |= self._bound.may_be_unbound(row, in_loop)
        self._rows.append(_Row(row, in_loop, question))

    def _leaves(self, statement: ast.stmt, is_last: bool) -> bool:
        """Whether control may go on elsewhere than behind it."""
        if isinstance(statement, ast.Return):
            return False
        inner = {id(node) for loop in ast.walk(statement) if isinstance(loop, LOOPS) for node in ast.walk(loop)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Return) and not is_last:
                return True
            if isinstance(node, ast.Break | ast.Continue) and id(node) not in inner:
                return True
        return False

    def _made(self, row: Sequence[ast.stmt]) -> list[ValueFact]:
        return self._made_in(row[0].lineno, end_of(row[-1])[0]) if row else []

    def _made_in(self, first: int, last: int) -> list[ValueFact]:
        return [value for value, lines in self._values if any(first <= line <= last for line in lines)]

    def _is_number(self, name: str) -> bool:
        """What takes nothing but single numbers is no work that is worth a graph."""
        named = [value for value, _ in self._values if value.variable == name]
        return bool(named) and not any(map(_has_many, named))


def _cuts(site: Site, function: ast.FunctionDef) -> set[ast.stmt]:
    """The statement of the function where capture broke, or that led there, and those around it."""
    source = site.source
    spans = [site.finding.span, *(frame.span for frame in reversed(site.finding.stack))]
    for span in spans:
        if span is None or not same_file(span.file, site.file):
            continue
        node = source.expression_at(span) or source.expression_in(span)
        if node is not None and source.function(node) is function:
            statement = source.statement(node)
            around = [each for each in source.above(statement) if isinstance(each, ast.stmt) and each in set(ast.walk(function))]
            return {statement, *around} - {function}
    return set()


def _collected(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """`losses` and `loss`, of `losses.append(loss)`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=into), attr="append"), args=[value], keywords=[])):
            return into, value
    return None


def _lines(value: ValueFact, file: str) -> list[int]:
    spans = [frame.span for frame in value.stack] or [value.span]
    return [span.line for span in spans if span is not None and same_file(span.file, file)]


def is_work(value: ValueFact) -> bool:
    """Truths and single numbers are questions, and what shares the memory of something is no work."""
    return _has_many(value) and not value.description.startswith("bool") and value.operation not in SHARING


def _has_many(value: ValueFact) -> bool:
    sizes = SIZES.search(value.description)
    return sizes is not None and any(size.strip() not in ("", "1") for size in sizes[1].split(","))


def _is_elif(lines: Sequence[bytes], statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and lines[statement.lineno - 1][statement.col_offset :].startswith(b"elif")
