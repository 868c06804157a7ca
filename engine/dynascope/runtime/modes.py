"""What a mode adds to a graph that is built.

    call, notes = in_mode(options, forward, is_differentiated=False, told=...)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynascope.codegen.runnable import Launches
from dynascope.report.reason import Explanation
from dynascope.runtime.compile_aten import CompiledAten
from dynascope.runtime.cuda_graphs import Call, CudaRecorder, Replayed
from dynascope.runtime.reasons import ModeNotHonoured

NOT_MEASURED = "products of matrices are not measured"
ONE_LAUNCH = "its launches are not recorded as one"


def in_mode(
    options: Any, compiled: CompiledAten, is_differentiated: bool, told: Callable[[Explanation], None]
) -> tuple[Call, tuple[Explanation, ...]]:
    """The call in this mode, and what of the mode is not done. `told` hears what turns out when it runs."""
    missing, cause = [], ""
    launches = compiled.launches
    if options.measures_products and not (launches is not None and launches.is_on_gpu):
        missing, cause = [NOT_MEASURED], "they run on the processor, where the library's are the only ones"
    call = compiled.call
    if options.records_launches:
        found = "gradients lead through it" if is_differentiated else launches.obstacle if launches is not None else "it has no kernels"
        if found or launches is None:
            missing, cause = [*(f"{each} (they run on the processor)" for each in missing), ONE_LAUNCH], found
        else:
            call = _replayed(options.mode, call, launches, told)
    return call, (ModeNotHonoured(f'mode="{options.mode}"', " and ".join(missing), cause).explain(),) if missing else ()


def _replayed(mode: str, call: Call, launches: Launches, told: Callable[[Explanation], None]) -> Call:
    assert launches.device is not None  # a graph that can be recorded lies on one

    def gave_up(error: BaseException | None) -> None:
        cause = "its addresses or numbers are others at each call" if error is None else f"{type(error).__name__}: {error}"
        told(ModeNotHonoured(f'mode="{mode}"', ONE_LAUNCH, cause).explain())

    return Replayed(call, frozenset(launches.written), frozenset(launches.unused), CudaRecorder(launches.device), gave_up)
