"""New contents of inputs, written straight into the inputs' memory.

    x.mul_(2)     the graph returns mul, which is copied to x     ->     the kernel writes to x, and the graph returns x

    written_in_place(schedule, ((0, 0),))       output 0 is what input 0 is to hold

Only where no step after the kernel reads what was there, where the kernel reads each element before the same iteration writes
it, and where nothing can raise between the first write and the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynascope.loops.nodes import Body, Buffer, ExternCall, Load, Store, TensorView
from dynascope.schedule import memory
from dynascope.schedule.groups import FusionGroup, Schedule, Step
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.passes import arrange
from dynascope.sizes import is_constant, same

# Library calls that raise for sizes and types only. Others look at values: a matrix is singular, a probability is negative.
_BY_SIZE = """
    mm addmm bmm baddbmm addmv mv dot convolution convolution_backward _scaled_dot_product_flash_attention_for_cpu
    native_batch_norm _native_batch_norm_legit native_dropout rand randn rand_like randn_like cumsum cumprod sort topk
    max_pool2d_with_indices _adaptive_avg_pool2d avg_pool2d upsample_bilinear2d upsample_nearest2d empty_like clone copy
    _to_copy cat constant_pad_nd _fft_r2c _fft_c2c _fft_c2r
"""
NEVER_RAISES = frozenset(f"aten.{name}" for name in _BY_SIZE.split())


def written_in_place(schedule: Schedule, mutations: Sequence[tuple[int, int]]) -> Schedule:
    """The schedule in which those outputs that can be are their inputs. CPU kernels only."""
    if any(not isinstance(step, ExternCall) and _checks(step) for step in schedule.steps):
        return schedule
    for position, output in mutations:
        new = _written(schedule, schedule.program.inputs[position], schedule.outputs[output])
        schedule = schedule if new is None else new
    return schedule


def _only_by_size(call: ExternCall) -> bool:
    return str(getattr(call.operator, "overloadpacket", call.operator)) in NEVER_RAISES


def _checks(step: Step) -> bool:
    group = step if isinstance(step, FusionGroup) else step.group
    return group.checks_indices


def _written(schedule: Schedule, target: object, value: object) -> Schedule | None:
    if not isinstance(target, Buffer) or not isinstance(value, TensorView):
        return None
    result = schedule.buffers[value.buffer]
    if result.role != "temporary" or not _same_memory(target, result, value):
        return None
    views = [view.buffer for view in views_in(schedule.outputs)]
    if views.count(result.name) != 1 or target.name in views:
        return None
    makers = [n for n, step in enumerate(schedule.steps) if result.name in memory.makes(step)]
    if len(makers) != 1:
        return None
    (maker,) = makers
    group = schedule.steps[maker]
    if any(isinstance(step, ExternCall) and not _only_by_size(step) for step in schedule.steps[maker + 1 :]):
        return None
    later = [name for step in schedule.steps[maker + 1 :] for name in memory.reads(step)]
    if not isinstance(group, FusionGroup) or target.name in later or result.name in later:
        return None
    if any(target.name in memory.makes(step) for step in schedule.steps) or not _reads_before(group, target, result):
        return None
    return _replaced(schedule, maker, group, target, result)


def _same_memory(target: Buffer, result: Buffer, value: TensorView) -> bool:
    """Whether all three have one layout, for all sizes."""
    return (
        target.device.type == "cpu"
        and (target.dtype, target.device) == (result.dtype, result.device)
        and is_constant(value.offset, 0)
        and all(same(one.sizes, result.sizes) and same(one.strides, result.strides) for one in (target, value))
    )


def _reads_before(group: FusionGroup, target: Buffer, result: Buffer) -> bool:
    """Whether each element of the target is read before its place is written, by the iteration that writes it, once."""
    stores = [n for n, op in enumerate(group.body) if isinstance(op, Store) and op.buffer == result.name]
    loads = [n for n, op in enumerate(group.body) if isinstance(op, Load) and op.buffer == target.name]
    if len(stores) != 1 or group.body[stores[0]].mode != "set" or result.name in group.reads:
        return False
    (store,) = stores
    if any(n > store or group.body[n].index != group.body[store].index for n in loads):
        return False
    arrangement = arrange(group.body, group.columns)
    if any(arrangement.levels[n] != arrangement.levels[store] for n in loads):
        return False
    return not loads or arrangement.pass_count < 2


def _replaced(schedule: Schedule, maker: int, group: FusionGroup, target: Buffer, result: Buffer) -> Schedule:
    steps = list(schedule.steps)
    body: Body = tuple(
        replace(op, buffer=target.name) if isinstance(op, Store) and op.buffer == result.name else op
        for op in group.body
    )
    writes = tuple(target.name if name == result.name else name for name in group.writes)
    in_place = group.in_place | ({target.name} if target.name in group.reads else set())
    steps[maker] = replace(group, body=body, writes=writes, in_place=frozenset(in_place))
    outputs = tuple(
        TensorView(target.name, target.dtype, target.sizes, target.strides, 0)
        if isinstance(value, TensorView) and value.buffer == result.name
        else value
        for value in schedule.outputs
    )
    allocations = tuple(a for a in schedule.allocations if a.buffer != result.name)
    return replace(schedule, steps=tuple(steps), allocations=allocations, outputs=outputs)
