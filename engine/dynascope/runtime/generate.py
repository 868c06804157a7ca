"""From an ATen graph to kernel text: lower, fuse, emit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from dynascope.codegen.kernels import KernelModule
from dynascope.codegen.module import emit
from dynascope.codegen.reasons import EmitError
from dynascope.codegen.target import Target
from dynascope.loops.lower import lower
from dynascope.loops.lower.channels_last import Turned, turned_layouts
from dynascope.loops.lower.repeats import find_repeats
from dynascope.loops.nodes import LoopProgram
from dynascope.report.reason import Explanation
from dynascope.runtime.clock import StageClock
from dynascope.runtime.machine import this_machine
from dynascope.runtime.reasons import GenerationFailed
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import Schedule
from dynascope.schedule.in_place import written_in_place
from dynascope.schedule.last_writes import Mutations
from dynascope.schedule.overwriting import overwriting


def generate(
    graph: fx.GraphModule,
    example_inputs: Any,
    options: Any,
    clock: StageClock,
    mutations: Mutations,
    empties_its_list: bool,
    turned: Callable[[], Turned] | None = None,
) -> KernelModule | Explanation:
    """The kernels' text; why there is none where a stage failed. `turned` says what the graph and another share in other layouts."""
    value: Any = graph
    stages = (
        ("lower", lambda g: _lowered(g, example_inputs, options, turned, mutations)),
        ("fuse", lambda program: _fused(program, options, mutations)),
        ("emit", lambda schedule: emit(schedule, _target_of(schedule), empties_its_list)),
    )
    for name, stage in stages:
        try:
            with clock(name):
                value = stage(value)
            if options is None or options.strict:
                _verify(name, value)
        except EmitError as error:
            return error.reason.explain()
        except Exception as error:
            return GenerationFailed(name, f"{type(error).__name__}: {error}").explain()
    return value


def _lowered(
    graph: fx.GraphModule, example_inputs: Any, options: Any, turned: Callable[[], Turned] | None, mutations: Mutations
) -> LoopProgram:
    """Equal layers need not be turned in equal ways: where some are, all are lowered."""
    found = turned() if turned is not None else turned_layouts(graph, options)
    return lower(graph, example_inputs, options, None if found.layouts else find_repeats(graph), found, mutations)


def _fused(program: LoopProgram, options: Any, mutations: Mutations) -> Schedule:
    schedule = written_in_place(fuse(program, options, mutations), mutations)
    return overwriting(_measured(schedule, options))


def _measured(schedule: Schedule, options: Any) -> Schedule:
    if options is None or not options.measures_products or options.looks_only or options.numerics == "strict":
        return schedule
    if not any(device.type == "cuda" for device in this_machine(b.device for b in schedule.buffers.values()).devices):
        return schedule
    from dynascope.runtime.measured_products import (
        measured,  # launches kernels, which only this mode does while it compiles
    )

    return measured(schedule, options.cache)


def _verify(stage: str, made: Any) -> None:
    """Raises `Invalid` where a stage broke a promise of what it makes. Read only in strict mode, and where nobody says in which."""
    from dynascope.codegen.verifying import verify_kernels, verify_wrapper
    from dynascope.loops.verifying import verify_program
    from dynascope.schedule.verifying import verify_schedule

    for verify in {"lower": (verify_program,), "fuse": (verify_schedule,), "emit": (verify_wrapper, verify_kernels)}[stage]:
        verify(made)


def _target_of(schedule: Schedule) -> Target:
    return this_machine(buffer.device for buffer in schedule.buffers.values())
