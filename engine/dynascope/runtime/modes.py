"""What a mode adds to a graph that is built.

    call, notes = in_mode(options, forward, is_differentiated=False, told=...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynascope.codegen.library_calls import is_torchs_own
from dynascope.loops.nodes import Buffer, ExternCall
from dynascope.report.reason import Explanation
from dynascope.runtime.compile_aten import CompiledAten
from dynascope.runtime.cuda_graphs import Call, CudaRecorder, Replayed
from dynascope.runtime.reasons import ModeNotHonoured
from dynascope.schedule.groups import Schedule
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.memory import makes

NOT_MEASURED = "products of matrices are not measured"
ONE_LAUNCH = "its launches are not recorded as one"


def in_mode(
    options: Any, compiled: CompiledAten, is_differentiated: bool, told: Callable[[Explanation], None]
) -> tuple[Call, tuple[Explanation, ...]]:
    """The call in this mode, and what of the mode is not done. `told` hears what turns out when it runs."""
    missing, cause = [], ""
    if options.measures_products and not _is_on_gpu(compiled):
        missing, cause = [NOT_MEASURED], "they run on the processor, where the library's are the only ones"
    call = compiled.call
    if options.records_launches:
        found = "gradients lead through it" if is_differentiated else obstacle(compiled)
        if found:
            missing, cause = [*(f"{each} (they run on the processor)" for each in missing), ONE_LAUNCH], found
        else:
            call = _replayed(options.mode, compiled, told)
    return call, (ModeNotHonoured(f'mode="{options.mode}"', " and ".join(missing), cause).explain(),) if missing else ()


def _is_on_gpu(compiled: CompiledAten) -> bool:
    return compiled.module is not None and any(buffer.device.type == "cuda" for buffer in _used(compiled.module.schedule))


def obstacle(compiled: CompiledAten) -> str:
    """Why a graph cannot be recorded; empty where it can be."""
    if compiled.module is None:
        return "it has no kernels"
    schedule = compiled.module.schedule
    devices = {buffer.device for buffer in _used(schedule)}
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


def _replayed(mode: str, compiled: CompiledAten, told: Callable[[Explanation], None]) -> Call:
    assert compiled.module is not None
    schedule = compiled.module.schedule
    inputs = schedule.program.inputs
    written = set(_written(schedule))
    (device,) = {buffer.device for buffer in _used(schedule)}

    def gave_up(error: BaseException | None) -> None:
        cause = "its addresses or numbers are others at each call" if error is None else f"{type(error).__name__}: {error}"
        told(ModeNotHonoured(f'mode="{mode}"', ONE_LAUNCH, cause).explain())

    return Replayed(
        compiled.call,
        frozenset(at for at, given in enumerate(inputs) if isinstance(given, Buffer) and given.name in written),
        frozenset(at for at, given in enumerate(inputs) if given is None),
        CudaRecorder(device),
        gave_up,
    )


def _written(schedule: Schedule) -> Iterator[str]:
    """The buffers that steps write to, those of library calls that write included."""
    for step in schedule.steps:
        yield from makes(step)
        if isinstance(step, ExternCall) and _called(step)._schema.is_mutable:
            yield from (view.buffer for view in views_in((step.arguments, step.keywords)))


def _called(step: ExternCall) -> Any:
    """The operator; of random numbers that fill a new tensor, the one that fills it."""
    return getattr(step.operator, "written_by", step.operator)
