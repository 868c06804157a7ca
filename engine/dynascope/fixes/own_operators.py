"""Code that is neither torch's nor Python's becomes an operator of the program's own, with a fake that says what comes out.

z = torch.from_numpy(np.interp(y.numpy(), xs, ys))    ->    z = interp_operator(y)

@torch.library.custom_op("model::interp_operator", mutates_args=())
def interp_operator(y: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.interp(y.numpy(), xs, ys))

@interp_operator.register_fake
def interp_operator_fake(y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(y)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import partial
from pathlib import PurePath

from dynascope.dataclass import dataclass
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Kind, Site
from dynascope.fixes.scopes import Function, default_of, loaded, local_names, parameters, stored
from dynascope.fixes.source import Source, called_name, dotted, end_of

TAKES_OUT = frozenset({"numpy", "tolist", "item"})
"""Methods of a tensor that give something else."""
WITHOUT_GRADIENT = TAKES_OUT | {"detach", "data", "dtype", "device", "shape"}
PLAIN = {bool: "bool", int: "int", float: "float", str: "str"}
FAKES = (
    "{torch}.empty_like({tensors[0]})",
    "{tensors[0]}.new_empty(())",
    "{torch}.empty_like({tensors[0]}, dtype={torch}.float64)",
    "{torch}.empty_like({tensors[0]}, dtype={torch}.int64)",
    "{torch}.empty_like({tensors[1]})",
)
"""What comes out, the likeliest first. The proof compares it with what does come out."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Statements one after the other, of which the last makes the tensor that is looked for."""

    function: Function
    statements: Sequence[ast.Assign | ast.Return]
    inputs: dict[str, str]
    """Names from outside, each with what its annotation says."""

    @property
    def value(self) -> ast.expr:
        value = self.statements[-1].value
        assert value is not None  # `_simple` says so
        return value


def _as_operator(site: Site, fake: str) -> Fix | None:
    source = site.source
    torch, imports = source.torch
    part = _part(site, torch)
    outside = _outermost(source, part.function) if part is not None else None
    if part is None or outside is None:
        return None
    tensors = [name for name, kind in part.inputs.items() if kind == f"{torch}.Tensor"]
    try:
        made = fake.format(torch=torch, tensors=tensors)
    except IndexError:
        return None
    last = re.sub(r"\W", "", called_name(site.node).rpartition(".")[2]) or "foreign"
    name = source.fresh(f"{last}_operator")
    space = re.sub(r"\W", "_", PurePath(site.finding.span.file).stem if site.finding.span else "program")
    head = ", ".join(f"{each}: {kind}" for each, kind in part.inputs.items())
    text = (
        f'@{torch}.library.custom_op("{space}::{name}", mutates_args=())\n'
        f"def {name}({head}) -> {torch}.Tensor:\n{_body(source, part)}\n\n\n"
        f"@{name}.register_fake\ndef {name}_fake({head}) -> {torch}.Tensor:\n    return {made}\n\n\n"
    )
    return Fix(
        f"Make it an operator with torch.library.custom_op, whose fake is {made}",
        (*imports, Edit(outside, 0, outside, 0, text), _call(source, part, name)),
    )


def _kind(fake: str) -> Kind:
    return lambda site: _as_operator(site, fake)


KINDS: tuple[Kind, ...] = tuple(map(_kind, FAKES))


def _part(site: Site, torch: str) -> _Part | None:
    """The statement itself, and those before and after it between which something other than tensors goes."""
    source, statement = site.source, site.source.statement(site.node)
    function = source.function(statement)
    if function is None:
        return None
    block = source.block(statement)
    first = last = block.index(statement)
    own = local_names(function)
    helpers = frozenset(each.name for each in source.tree.body if isinstance(each, ast.FunctionDef))
    values = _Values(function, torch, frozenset(own), helpers)
    simple = partial(_simple, source)
    while True:
        statements = [each for each in map(simple, block[first : last + 1]) if each is not None]
        if len(statements) < last + 1 - first:
            return None
        others = {name for name in _free(statements, own) if values.is_other(name, statements[0].lineno)}
        if others and first > 0:
            first -= 1
        elif not others and values.gives_other(statements[-1].value):
            if last + 1 == len(block):
                return None
            last += 1
        else:
            break
    if others or not _leaves_one(function, statements):
        return None
    inputs = {each.arg: _annotation(function, each, torch) for each in parameters(function)}
    names = sorted(_free(statements, own), key=lambda name: (name not in inputs, name))
    found = {name: inputs.get(name, f"{torch}.Tensor") for name in names}
    tensors = [name for name, kind in found.items() if kind == f"{torch}.Tensor"]
    if not tensors or "self" in found or not all(_loses_gradient(site, statements, name) for name in tensors):
        return None
    return _Part(function, statements, found)


def _simple(source: Source, statement: ast.stmt) -> ast.Assign | ast.Return | None:
    """A statement that is `name = value` or `return value`, on lines of its own."""
    if source.indentation(statement) is None:
        return None
    match statement:
        case ast.Assign(targets=[ast.Name()]) | ast.Return(value=ast.expr()):
            return statement
    return None


def _free(statements: Sequence[ast.stmt], own: set[str]) -> set[str]:
    known: set[str] = set()
    found: set[str] = set()
    for statement in statements:
        inner = {name for name in stored([statement]) if not _is_target(statement, name)}
        found |= (loaded([statement]) - known - inner) & own
        known |= stored([statement])
    return found


def _is_target(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in statement.targets)


@dataclass(frozen=True, slots=True)
class _Values:
    """What names of a function hold, as far as the text says so."""

    function: Function
    torch: str
    own: frozenset[str]
    helpers: frozenset[str]
    """Functions of the module, which are taken to give tensors."""

    def is_other(self, name: str, line: int) -> bool:
        """Whether a name holds something else than a tensor before a line."""
        values = [
            node.value
            for node in ast.walk(self.function)
            if isinstance(node, ast.Assign) and node.lineno < line and _is_target(node, name)
        ]
        return bool(values) and self.gives_other(values[-1])

    def gives_other(self, value: ast.expr | None) -> bool:
        match value:
            case ast.Call(func=ast.Name(id=name)):
                return name not in self.helpers
            case ast.Call() if called_name(value).startswith(f"{self.torch}."):
                return False
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name not in self.own:
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr=method)):
                return method in TAKES_OUT or self.gives_other(owner)
            case ast.BinOp(left=left, right=right):
                return self.gives_other(left) and self.gives_other(right)
            case ast.Name(id=name):
                return self.is_other(name, value.lineno)
            case _:
                return value is None or isinstance(value, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.ListComp)


def _leaves_one(function: Function, statements: Sequence[ast.stmt]) -> bool:
    """Nothing but the last value is read after it."""
    last = statements[-1]
    if isinstance(last, ast.Return):
        return True
    after = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n.lineno > end_of(last)[0]]
    inside = {name for each in statements[:-1] for name in stored([each])}
    return not (inside - stored([last])) & loaded(after)


def _annotation(function: Function, parameter: ast.arg, torch: str) -> str:
    written = dotted(parameter.annotation) if parameter.annotation is not None else ""
    default = default_of(function, parameter.arg)
    if written in PLAIN.values():
        return written
    if isinstance(default, ast.Constant) and type(default.value) in PLAIN:
        return PLAIN[type(default.value)]
    return f"{torch}.Tensor"


def _outermost(source: Source, function: Function) -> int | None:
    """The line before which something of the module can stand."""
    found = next((each for each in (function, *source.above(function)) if each in source.tree.body), None)
    if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return None
    return min((found.lineno, *(each.lineno for each in found.decorator_list)))


def _body(source: Source, part: _Part) -> str:
    rows = [
        f"    {source.text_of(each.targets[0])} = {_whole(source, each.value)}"
        for each in part.statements
        if each is not part.statements[-1] and isinstance(each, ast.Assign)
    ]
    return "\n".join([*rows, f"    return {_whole(source, part.value)}"])


def _whole(source: Source, value: ast.expr) -> str:
    """Parentheses around a value of several lines do not belong to it."""
    text = source.text_of(value)
    return f"({text})" if "\n" in text and not isinstance(value, ast.Call) else text


def _call(source: Source, part: _Part, name: str) -> Edit:
    given = [f"{each}.detach()" if kind.endswith(".Tensor") else each for each, kind in part.inputs.items()]
    last = part.statements[-1]
    left = "return" if isinstance(last, ast.Return) else f"{source.text_of(last.targets[0])} ="
    first = part.statements[0]
    return Edit(first.lineno, first.col_offset, *end_of(last), f"{left} {name}({', '.join(given)})")


def _loses_gradient(site: Site, statements: Sequence[ast.stmt], name: str) -> bool:
    """An operator without a derivative of its own ends what gradients lead through: only where none did before."""
    uses = [
        node
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    above = [site.source.parent(use) for use in uses]
    return all(
        each is site.node or (isinstance(each, ast.Attribute) and each.attr in WITHOUT_GRADIENT) for each in above
    )
