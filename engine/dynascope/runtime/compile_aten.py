"""All back stages in order, for one ATen graph; what cannot be built runs as its operators.

compiled = compile_aten(graph, example_inputs, options, clock)
compiled.call(*flat inputs)  ->  tuple
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from dynascope.codegen.kernels import KernelModule
from dynascope.codegen.module import emit
from dynascope.codegen.reasons import EmitError
from dynascope.codegen.target import Target
from dynascope.loops.lower import lower
from dynascope.loops.lower.repeats import find_repeats
from dynascope.native.toolchain import ToolchainError
from dynascope.report.reason import Explanation
from dynascope.runtime.build import build
from dynascope.runtime.machine import this_machine
from dynascope.runtime.operators import run_operators
from dynascope.runtime.reasons import GenerationFailed, RunsAsOperators
from dynascope.runtime.timings import Timings
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import Schedule
from dynascope.schedule.in_place import written_in_place
from dynascope.schedule.last_writes import Mutations

StageClock = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class CompiledAten:
    """`call(*flat inputs)` gives a tuple; it must run with grad mode off. `module` is None where a stage failed.

    `aten` is the graph it was made of, `paths` the shared objects of its C++ kernels.
    """

    aten: fx.GraphModule
    call: Callable[..., tuple[Any, ...]]
    module: KernelModule | None
    notes: tuple[Explanation, ...]
    paths: dict[str, str] = field(default_factory=dict)
    timings: Timings | None = None


def compile_aten(
    graph: fx.GraphModule,
    example_inputs: Any = None,
    options: Any = None,
    clock: StageClock = nullcontext,
    empties_its_list: bool = False,
) -> CompiledAten:
    """Never raises for a program: a failed stage is a note, and the graph runs as its operators.

    `clock(stage)` is entered around each stage, to time and announce it. With `empties_its_list`, `call.with_list` takes the
    inputs in a list that it empties: each is free when the graph has read it for the last time.
    """
    made = _generate(graph, example_inputs, options, clock, (), empties_its_list)
    with clock("build"):
        return _built(graph, made, options)


def compile_together(
    graphs: Sequence[tuple[fx.GraphModule, Any]],
    options: Any = None,
    clock: StageClock = nullcontext,
    mutations: Mutations = (),
) -> list[CompiledAten]:
    """Several graphs, such as a forward and its backward: while one is built, by the system's compiler or by workers, the next is
    generated. All but the first have a `call.with_list`.

    `mutations` are those of the first: (input, output) where the caller copies the output to the input. Such an output may be
    the input itself, already written.
    """
    with ThreadPoolExecutor(len(graphs)) as threads:
        building = []
        for number, (graph, inputs) in enumerate(graphs):
            made = _generate(graph, inputs, options, clock, () if number else mutations, empties_its_list=number > 0)
            building.append(threads.submit(_built, graph, made, options))
        with clock("build"):
            return [each.result() for each in building]


def _generate(
    graph: fx.GraphModule, example_inputs: Any, options: Any, clock: StageClock, mutations: Mutations, empties_its_list: bool
) -> KernelModule | Explanation:
    """The kernels' text; why there is none where a stage failed."""
    value: Any = graph
    stages = (
        ("lower", lambda g: lower(g, example_inputs, options, find_repeats(g))),
        ("fuse", lambda program: written_in_place(fuse(program, options, mutations), mutations)),
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


def _verify(stage: str, made: Any) -> None:
    """Raises `Invalid` where a stage broke a promise of what it makes. Read only in strict mode, and where nobody says in which."""
    from dynascope.codegen.verifying import verify_wrapper
    from dynascope.loops.verifying import verify_program
    from dynascope.schedule.verifying import verify_schedule

    {"lower": verify_program, "fuse": verify_schedule, "emit": verify_wrapper}[stage](made)


def _target_of(schedule: Schedule) -> Target:
    return this_machine(buffer.device for buffer in schedule.buffers.values())


def _built(graph: fx.GraphModule, module: KernelModule | Explanation, options: Any) -> CompiledAten:
    if isinstance(module, Explanation):
        return CompiledAten(graph, run_operators(graph), None, (module,))
    if options is not None and options.looks_only:
        return CompiledAten(graph, run_operators(graph), module, ())
    try:
        built = build(module, options)
    except ToolchainError as error:
        note = RunsAsOperators(error.reason.message(), error.reason.remedy()).explain()
        return CompiledAten(graph, run_operators(graph), None, (note,))
    except Exception as error:
        note = GenerationFailed("build", f"{type(error).__name__}: {error}").explain()
        return CompiledAten(graph, run_operators(graph), None, (note,))
    return CompiledAten(graph, built.call, module, built.notes, built.paths, built.timings)
