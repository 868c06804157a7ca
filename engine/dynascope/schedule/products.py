"""Products of matrices that a kernel could compute itself, with what follows them.

    m = addmm(b, x, w); y = gelu(m)       a library call and a kernel       ->       one kernel that multiplies

    candidates(schedule)                       each such pair, with the group as it would be
    with_products(schedule, chosen)            the schedule in which the chosen pairs are one step

Which is faster is for the machine to say (`runtime/measured_products.py`).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.index import Substitution, Symbol, linear, variable
from dynascope.loops.layouts import row_major
from dynascope.loops.nodes import Body, Buffer, ExternCall, Load, Reduce, Scan, TensorView
from dynascope.schedule import memory
from dynascope.schedule.groups import Fused, FusionGroup, MatrixProduct, Schedule, Step, Tiling
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.nests import rewritten
from dynascope.sizes import Size

OPERATORS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
DTYPES = (torch.bfloat16, torch.float16)
"""Whose products a GPU sums in f32, as a kernel does."""
ANY = Tiling(16, 16, 16, 4, 1)
"""Stands in the place of a tiling that is still to be chosen."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The library call at `call` and the kernel at `kernel` among the steps; `group` is that kernel where it multiplies itself."""

    call: int
    kernel: int
    group: FusionGroup


def candidates(schedule: Schedule, device_type: str = "cuda") -> list[Candidate]:
    """Each kernel is in one of them, with the latest product that it can make itself."""
    calls = {
        name: number for number, step in enumerate(schedule.steps) if _multiplies(step, device_type) for name in memory.makes(step)
    }
    found = []
    for number, step in enumerate(schedule.steps):
        if not isinstance(step, FusionGroup) or step.device.type != device_type or not _is_simple(step):
            continue
        for call in sorted((calls[name] for name in step.reads if name in calls), reverse=True):
            group = _multiplying(schedule, call, number)
            if group is not None:
                found.append(Candidate(call, number, group))
                break
    return found


def with_products(schedule: Schedule, chosen: Sequence[Candidate]) -> Schedule:
    """Memory is planned anew: the products are not in it."""
    if not chosen:
        return schedule
    kernels, calls = {each.kernel: each.group for each in chosen}, {each.call for each in chosen}
    steps = tuple(kernels.get(number, step) for number, step in enumerate(schedule.steps) if number not in calls)
    pairs = {(schedule.steps[each.call].origin.node, origin.node) for each in chosen for origin in each.group.origins}  # type: ignore[union-attr]
    borders = tuple(Fused(b.producer, b.consumer) if (b.producer, b.consumer) in pairs else b for b in schedule.borders)
    return memory.plan(replace(schedule.program, outputs=schedule.outputs), steps, borders)


def _multiplies(step: Step, device_type: str) -> bool:
    if not isinstance(step, ExternCall) or step.operator not in OPERATORS or step.keywords:
        return False
    (result,) = step.results
    views = step.arguments
    return (
        result is not None
        and result.device.type == device_type
        and all(isinstance(view, TensorView) and view.dtype in DTYPES and view.dtype is result.dtype for view in views)
        and not any(_varies(*view.sizes, *view.strides, view.offset) for view in views)
        and _is_contiguous(result)
    )


def _is_contiguous(buffer: Buffer) -> bool:
    return buffer.strides == row_major(buffer.sizes)


def _is_simple(group: FusionGroup) -> bool:
    """Without reductions, and of sizes that do not vary."""
    return (
        not group.columns
        and not group.numbers
        and not _varies(*(symbol.extent for symbol in group.rows))
        and not any(isinstance(operation, (Reduce, Scan)) for operation in group.body)
    )


def _varies(*extents: object) -> bool:
    return any(isinstance(extent, Size) for extent in extents)


def _multiplying(schedule: Schedule, number: int, kernel: int) -> FusionGroup | None:
    call, group = schedule.steps[number], schedule.steps[kernel]
    assert isinstance(call, ExternCall) and isinstance(group, FusionGroup)
    (result,) = call.results
    assert result is not None
    if any(result.name in memory.makes(step) for step in schedule.steps if step is not call):  # kernels write over parts of it
        return None
    if not _is_only_reader(schedule, kernel, result.name) or not _stays(schedule.steps[number:kernel], call, group):
        return None
    *added, first, second = call.arguments
    rows, body = group.rows, group.body
    if len(rows) == 1 and 1 not in result.sizes:
        rows, body = _by_rows_and_columns(rows[0], body, result)
    loads = {operation.index for operation in body if isinstance(operation, Load) and operation.buffer == result.name}
    if len(loads) != 1 or len(first.sizes) != 2:
        return None
    (index,) = loads
    rows = tuple(sorted(rows, key=index.coefficient, reverse=True))  # rows of a kernel may come in any order: here in the product's
    split = _split(rows, result.sizes[0])
    if split is None or index != linear(map(variable, rows), row_major(symbol.extent for symbol in rows)):
        return None
    whole = None
    if added:
        (whole,) = (_expanded(view, result) for view in added)
        if whole is None:
            return None
    product = MatrixProduct(result.name, first, second, whole, split, ANY)
    return replace(
        group,
        name=f"{call.origin.node}_{group.name}",
        rows=rows,
        body=body,
        reads=tuple(dict.fromkeys((*product.buffers, *(name for name in group.reads if name != result.name)))),
        origins=(call.origin, *group.origins),
        plain=None,
        product=product,
    )


def _is_only_reader(schedule: Schedule, kernel: int, name: str) -> bool:
    if any(view.buffer == name for view in views_in(schedule.outputs)):
        return False
    return all(name not in memory.reads(step) for number, step in enumerate(schedule.steps) if number != kernel)


def _stays(between: Sequence[Step], call: ExternCall, group: FusionGroup) -> bool:
    """Whether the operands are still what they were when the kernel runs, and it does not write to them itself."""
    operands = {view.buffer for view in views_in(call.arguments)}
    return operands.isdisjoint(group.writes) and not any(name in operands for step in between for name in _written(step))


def _written(step: Step) -> Iterator[str]:
    yield from memory.makes(step)
    if isinstance(step, ExternCall) and getattr(step.operator, "_schema", None) is not None and step.operator._schema.is_mutable:
        yield from memory.reads(step)


def _by_rows_and_columns(symbol: Symbol, body: Body, result: Buffer) -> tuple[tuple[Symbol, ...], Body]:
    """A body over one loop, over the rows and columns of the product."""
    rows, columns = (Symbol(f"{symbol.name}_{at}", size) for at, size in enumerate(result.sizes))
    flat = linear((variable(rows), variable(columns)), result.strides)
    return (rows, columns), rewritten(body, Substitution(lambda atom: flat if atom == symbol else None))


def _split(rows: Sequence[Symbol], count: int) -> int | None:
    """How many of the loops go through the rows of the product; None where none of both kinds do."""
    sizes = itertools.accumulate((symbol.extent for symbol in rows[:-1]), operator.mul, initial=1)
    return next((number for number, size in enumerate(sizes) if size == count), None)


def _expanded(view: TensorView, result: Buffer) -> TensorView | None:
    """What is added, as a matrix of the product's size."""
    sizes = (1,) * (2 - len(view.sizes)) + view.sizes
    strides = (0,) * (2 - len(view.strides)) + view.strides
    if len(sizes) != 2 or any(have not in (1, wanted) for have, wanted in zip(sizes, result.sizes, strict=True)):
        return None
    there = tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))
    return replace(view, sizes=result.sizes, strides=there)
