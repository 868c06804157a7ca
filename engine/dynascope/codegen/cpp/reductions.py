"""Reductions in C++: an accumulator before the loop, a step inside it, a result after it.

    F32 sum_1 = {}                      accumulates lanes
    sum_1 += keep(x_0, n, 0)            the lanes past the end add nothing
    f32 s = sum_of(sum_1)               across lanes, where lanes run over columns

Long sums of f32 are added up in blocks: each block's sum goes into a f64 total.
"""

from __future__ import annotations

from dataclasses import field, replace

import torch

from dynascope.codegen.cpp import sizes
from dynascope.codegen.cpp.nest import Nest
from dynascope.codegen.cpp.types import ELEMENT, vector
from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent
from dynascope.loops.nodes import Body, Reduce
from dynascope.sizes import Size, is_constant, known

LONGEST_PLAIN_SUM = 4096
LONGEST_LANE_SUM = 128
COUNTING = ("sum", "prod")
"""Reductions to which it matters how many elements are equal."""


@dataclass(frozen=True, slots=True)
class Part:
    """The variable that a step changes. Several of them, merged at the end, keep the processor from waiting for one;
    an empty `merge` says that there must be only one."""

    kind: str
    name: str
    initial: str
    merge: str = ""

    @property
    def declaration(self) -> str:
        return f"{self.kind} {self.name} = {self.initial};"

    def copy(self, number: int) -> str:
        return f"{self.name}_{number}" if number else self.name


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The lines of one reduction. `open_block` and `flush` surround the innermost loop (of each block, if blocked)."""

    value: int
    argument: int
    name: str
    begin: tuple[str, ...]
    end: tuple[str, ...]
    form: str
    part: Part
    open_block: tuple[str, ...] = ()
    flush: tuple[str, ...] = field(default=())

    def step(self, argument: str) -> list[str]:
        return [self.form.replace("$", argument)]

    def more_parts(self, copies: int) -> list[str]:
        return [f"{self.part.kind} {self.part.copy(k)} = {self.part.initial};" for k in range(1, copies)]

    def merged_parts(self, copies: int) -> list[str]:
        return [self.part.merge.replace("$", self.part.copy(k)) for k in range(1, copies)]


@dataclass(frozen=True, slots=True)
class _Shape:
    """Types and places of an accumulator: as lanes or one element, folded across lanes or not."""

    name: str
    kind: str
    element: str
    lanes: bool
    folds: bool
    keep: str
    """How the step's operand is kept from counting lanes that are not of this step; "" where no lane is."""


def accumulator(number: int, operation: Reduce, body: Body, nest: Nest, name: str) -> Accumulator:
    argument = operation.arguments[0]
    varies = nest.varies(argument)
    dtype = body[argument].dtype
    element = ELEMENT[dtype]
    # What is the same in every lane is still an element of each: one that counts is counted as often as there are lanes.
    repeated = not varies and operation.kind in COUNTING and nest.lane is not None and not nest.lane_in_rows
    lanes = varies or repeated
    folds = lanes and not nest.lane_in_rows
    shape = _Shape(name, vector(element) if lanes else element, element, lanes, folds, _keep(nest) if folds else "")
    builder = {"sum": _sum, "prod": _product, "max": _extremum, "min": _extremum, "any": _truth, "all": _truth,
               "argmax": _place, "argmin": _place}[operation.kind]  # fmt: skip
    made = builder(number, argument, operation, shape, dtype, nest)
    return replace(made, form=made.form.replace("$", f"({shape.kind}{{}} + $)")) if repeated else made


def _keep(nest: Nest) -> str:
    if nest.overlaps:
        return "fresh($, again, NEUTRAL)"
    return "" if nest.fills_lanes else "keep($, n, NEUTRAL)"


def _kept(shape: _Shape, neutral: str) -> str:
    """The step's operand, of which lanes beside the row, or counted before, must not count."""
    return shape.keep.replace("NEUTRAL", f"{shape.kind}{{}} + ({shape.element}){neutral}") or "$"


def _kept_if_beside(shape: _Shape, neutral: str) -> str:
    """As `_kept`, for reductions that may count an element twice."""
    return "$" if "again" in shape.keep else _kept(shape, neutral)


def _sum(number: int, argument: int, operation: Reduce, shape: _Shape, dtype: torch.dtype, nest: Nest) -> Accumulator:
    name = shape.name
    partial = f"{name}_part"
    part = Part(shape.kind, partial, "{}", f"{partial} += $;")
    step = f"{partial} += {_kept(shape, '0')};"
    folded = f"sum_of({partial})" if shape.folds else partial
    result_kind = shape.element if shape.folds or not shape.lanes else shape.kind
    longest = LONGEST_PLAIN_SUM if shape.folds else LONGEST_LANE_SUM
    if dtype != torch.float32 or known("<=", nest.group.column_count, longest):
        end = (f"const {result_kind} {name} = {folded};",)
        return Accumulator(number, argument, name, (part.declaration,), end, step, part)
    total_kind = "f64" if shape.folds or not shape.lanes else "F32"
    begin, flush, result = f"{total_kind} {name}_total = {{}};", f"{name}_total += {folded};", f"{name}_total"
    if total_kind == "f64":
        result = f"(f32){result}"
    if shape.folds and len(nest.columns) == 1 and isinstance(nest.group.column_count, Size):
        # Of a row that has but one block it is that block's: what follows need not wait for the total.
        begin = f"f32 {name}_block = 0; {begin}"
        flush = f"{name}_block = {folded}; {name}_total += {name}_block;"
        result = f"{sizes.text(nest.group.column_count)} <= {LONGEST_PLAIN_SUM} ? {name}_block : {result}"
    end = (f"const {result_kind} {name} = {result};",)
    return Accumulator(number, argument, name, (begin,), end, step, part, (part.declaration,), (flush,))


def _product(
    number: int, argument: int, operation: Reduce, shape: _Shape, dtype: torch.dtype, nest: Nest
) -> Accumulator:
    name = shape.name
    part = Part(shape.kind, f"{name}_part", f"{shape.kind}{{}} + ({shape.element})1", f"{name}_part *= $;")
    folded = f"prod_of({name}_part)" if shape.folds else f"{name}_part"
    kind = shape.element if shape.folds else shape.kind
    end, step = (f"const {kind} {name} = {folded};",), f"{name}_part *= {_kept(shape, '1')};"
    return Accumulator(number, argument, name, (part.declaration,), end, step, part)


def _extremum(
    number: int, argument: int, operation: Reduce, shape: _Shape, dtype: torch.dtype, nest: Nest
) -> Accumulator:
    name, is_max = shape.name, operation.kind == "max"
    neutral = lowest(dtype) if is_max else highest(dtype)
    function = "maximum" if is_max else "minimum"
    initial = f"{shape.kind}{{}} + ({shape.element}){neutral}"
    part = Part(shape.kind, f"{name}_part", initial, f"{name}_part = {function}({name}_part, $);")
    folded = f"{operation.kind}_of({name}_part)" if shape.folds else f"{name}_part"
    kind = shape.element if shape.folds else shape.kind
    step = f"{name}_part = {function}({name}_part, {_kept_if_beside(shape, neutral)});"
    return Accumulator(number, argument, name, (part.declaration,), (f"const {kind} {name} = {folded};",), step, part)


def _truth(number: int, argument: int, operation: Reduce, shape: _Shape, dtype: torch.dtype, nest: Nest) -> Accumulator:
    name, is_any = shape.name, operation.kind == "any"
    sign, neutral = ("|", "0") if is_any else ("&", "-1")
    kind = "M" if shape.lanes else "mask"
    part = Part(kind, f"{name}_part", f"{kind}{{}} + (mask){neutral}", f"{name}_part = {name}_part {sign} $;")
    kept = f"keep($, n, M{{}} + (mask){neutral})" if shape.keep.startswith("keep") else "$"
    folded = f"{name}_part"
    if shape.folds:
        folded = f"-(mask){'any_lane' if is_any else 'all_lanes'}({name}_part)"
        kind = "mask"
    return Accumulator(
        number,
        argument,
        name,
        (part.declaration,),
        (f"const {kind} {name} = {folded};",),
        f"{name}_part = {name}_part {sign} {kept};",
        part,
    )


def _place(number: int, argument: int, operation: Reduce, shape: _Shape, dtype: torch.dtype, nest: Nest) -> Accumulator:
    name, is_max = shape.name, operation.kind == "argmax"
    index, lane_step = _linear_place(nest)
    at_kind = "I32" if shape.lanes else "i32"
    at = f"({at_kind}{{}} + (i32)({index}))" + (f" + (i32){sizes.factor(lane_step)} * iota()" if shape.folds else "")
    neutral = lowest(dtype) if is_max else highest(dtype)
    best = Part(shape.kind, f"{name}_best", f"{shape.kind}{{}} + ({shape.element}){neutral}")
    begin = (
        best.declaration,
        f"{at_kind} {name}_place = {at_kind}{{}} + (i32)2147483647;",
    )
    compare = f"$ {'>' if is_max else '<'} {name}_best"
    better = f"compared({compare})" if shape.lanes else f"-(mask)({compare})"
    valid = "lanes(n)" if shape.keep.startswith("keep") else ("M{} - 1" if shape.lanes else "(mask)-1")
    step = f"arg_best({name}_best, {name}_place, $, {at}, {better}, {valid});"
    if shape.folds:
        end = f"const i64 {name} = best_lane({name}_best, {name}_place, {str(is_max).lower()});"
    else:
        end = f"const I64 {name} = TO(I64, {name}_place);" if shape.lanes else f"const i64 {name} = {name}_place;"
    return Accumulator(number, argument, name, begin, (end,), step, best)


def _linear_place(nest: Nest) -> tuple[str, Extent]:
    """The row-major position among the columns, as the user's dimensions have it, and its step from lane to lane."""
    terms, step, lane_step = [], 1, 0
    for symbol in reversed(nest.group.columns):
        if symbol == nest.lane:
            lane_step = step
        terms.append(str(symbol) if is_constant(step, 1) else f"{sizes.factor(step)} * {symbol}")
        step = step * symbol.extent
    return " + ".join(reversed(terms)) or "0", lane_step


def lowest(dtype: torch.dtype) -> str:
    if dtype.is_floating_point:
        return "-__builtin_inf()"
    return f"({torch.iinfo(dtype).min + 1}l - 1)"


def highest(dtype: torch.dtype) -> str:
    return "__builtin_inf()" if dtype.is_floating_point else f"{torch.iinfo(dtype).max}l"
