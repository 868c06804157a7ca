"""What a mode adds to a graph that is built.

    calls = in_mode(options, forward, [(backward, marks)], told)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynascope.codegen.runnable import Launches
from dynascope.report.reason import Explanation
from dynascope.runtime.compile_aten import CompiledAten
from dynascope.runtime.cuda_graphs import CudaRecorder, Replayed
from dynascope.runtime.graph_calls import Call, GraphCalls, Marks, as_built
from dynascope.runtime.reasons import ModeNotHonoured
from dynascope.runtime.recorded_gradients import RecordedBackward, RecordedForward

NOT_MEASURED = "products of matrices are not measured"
ONE_LAUNCH = "its launches are not recorded as one"
BACKWARD_LAUNCHES = "the launches of its backward pass are not recorded as one"

Told = Callable[[Explanation], None]


def in_mode(options: Any, forward: CompiledAten, backwards: Sequence[tuple[CompiledAten, Marks]], told: Told) -> GraphCalls:
    """The calls in this mode. `told` hears what turns out when they run."""
    missing, cause = [], ""
    launches = forward.launches
    if options.measures_products and not (launches is not None and launches.is_on_gpu):
        missing, cause = [NOT_MEASURED], "they run on the processor, where the library's are the only ones"
    made = as_built(forward, len(backwards))
    if options.records_launches:
        found = launches.obstacle if launches is not None else "it has no kernels"
        if found or launches is None:
            missing, cause = [*(f"{each} (they run on the processor)" for each in missing), ONE_LAUNCH], found
        elif not backwards:
            made = GraphCalls(_replayed(options.mode, forward.call, launches, told), ())
        else:
            made = _with_gradients(options.mode, forward.call, launches, [marks for _, marks in backwards], told)
            causes = [_obstacle(backward) for backward, _ in backwards]
            if any(causes):
                missing, cause = [BACKWARD_LAUNCHES], next(filter(None, causes))
    if not missing:
        return made
    note = ModeNotHonoured(f'mode="{options.mode}"', " and ".join(missing), cause).explain()
    return GraphCalls(made.forward, made.of_backward, (note,))


def _obstacle(compiled: CompiledAten) -> str:
    return compiled.launches.obstacle if compiled.launches is not None else "it has no kernels"


def _replayed(mode: str, call: Call, launches: Launches, told: Told) -> Call:
    recorder = _recorder(launches)
    return Replayed(call, frozenset(launches.written), frozenset(launches.unused), recorder, _gave_up(mode, ONE_LAUNCH, told))


def _with_gradients(mode: str, call: Call, launches: Launches, marks: Sequence[Marks], told: Told) -> GraphCalls:
    written, unused = frozenset(launches.written), frozenset(launches.unused)
    recorder = _recorder(launches)
    lent = frozenset(output for each in marks for output, _ in each)
    forward = RecordedForward(call, written, unused, recorder, _gave_up(mode, ONE_LAUNCH, told), lent)

    def backward_call(own: Marks) -> Callable[[CompiledAten], Call]:
        def call_of(compiled: CompiledAten) -> Call:
            found = compiled.launches
            if found is None or _obstacle(compiled) or found.device != launches.device:
                return compiled.call
            heard = _gave_up(mode, BACKWARD_LAUNCHES, told)
            return RecordedBackward(compiled.call, frozenset(found.written), frozenset(found.unused), forward, own, recorder, heard)

        return call_of

    return GraphCalls(forward, tuple(backward_call(own) for own in marks))


def _recorder(launches: Launches) -> CudaRecorder:
    assert launches.device is not None  # a graph that can be recorded lies on one
    return CudaRecorder(launches.device)


def _gave_up(mode: str, missing: str, told: Told) -> Callable[[BaseException | None], None]:
    def gave_up(error: BaseException | None) -> None:
        cause = "its addresses or numbers are others at each call" if error is None else f"{type(error).__name__}: {error}"
        told(ModeNotHonoured(f'mode="{mode}"', missing, cause).explain())

    return gave_up
