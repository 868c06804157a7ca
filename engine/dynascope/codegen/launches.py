"""What is known of a graph's launches before it runs: whether they could be recorded, and which inputs they write to.

launches_of(schedule)  ->  Launches(obstacle="", device=cuda:0, written=(2,), ...)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynascope.codegen.library_calls import is_torchs_own
from dynascope.codegen.runnable import Launches
from dynascope.loops.nodes import Buffer, ExternCall
from dynascope.schedule.groups import Schedule
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.memory import makes


def launches_of(schedule: Schedule) -> Launches:
    inputs = schedule.program.inputs
    devices = {buffer.device for buffer in _used(schedule)}
    written = set(_written(schedule))
    return Launches(
        _obstacle(schedule, devices),
        any(device.type == "cuda" for device in devices),
        next(iter(devices)) if len(devices) == 1 else None,
        tuple(at for at, given in enumerate(inputs) if isinstance(given, Buffer) and given.name in written),
        tuple(at for at, given in enumerate(inputs) if given is None),
    )


def _obstacle(schedule: Schedule, devices: set[Any]) -> str:
    if all(device.type == "cpu" for device in devices):
        return "it runs on the processor"
    if any(device.type != "cuda" for device in devices) or len(devices) != 1:
        return "not all that it reads and makes lies on one GPU"
    for step in schedule.steps:
        if isinstance(step, ExternCall) and not is_torchs_own(_called(step)):
            return f"`{step.origin.operator}` may do more than launch kernels"
    return ""


def _used(schedule: Schedule) -> Iterator[Buffer]:
    yield from (given for given in schedule.program.inputs if isinstance(given, Buffer))
    yield from (schedule.buffers[name] for step in schedule.steps for name in makes(step))
    yield from (schedule.buffers[view.buffer] for view in views_in(schedule.outputs))


def _written(schedule: Schedule) -> Iterator[str]:
    """The buffers that steps write to, those of library calls that write included."""
    for step in schedule.steps:
        yield from makes(step)
        if isinstance(step, ExternCall) and _may_write(step):
            yield from (view.buffer for view in views_in((step.arguments, step.keywords)))


def _may_write(step: ExternCall) -> bool:
    """A function of ours that has no schema asks or draws, and writes to nothing."""
    schema = getattr(_called(step), "_schema", None)
    return schema is not None and schema.is_mutable


def _called(step: ExternCall) -> Any:
    """The operator; of random numbers that fill a new tensor, the one that fills it."""
    return getattr(step.operator, "written_by", step.operator)
