"""All back stages in order, for one ATen graph; what cannot be built runs as its operators.

compiled = compile_aten(graph, example_inputs, options, clock)
compiled.call(*flat inputs)  ->  tuple

Of a graph that an earlier process compiled all but the last stage is skipped, where nobody reads what they make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from torch import fx

from dynascope.codegen.runnable import Launches, Runnable
from dynascope.dataclass import dataclass
from dynascope.native.toolchain import ToolchainError
from dynascope.report.reason import Explanation
from dynascope.report.span import stacks_by_name
from dynascope.runtime import kept_graphs
from dynascope.runtime.build import build
from dynascope.runtime.clock import StageClock
from dynascope.runtime.graph_text import text_of
from dynascope.runtime.operators import run_operators
from dynascope.runtime.reasons import GenerationFailed, RunsAsOperators
from dynascope.runtime.timings import Timings

if TYPE_CHECKING:
    from dynascope.codegen.kernels import KernelModule
    from dynascope.loops.lower.channels_last import Turned
    from dynascope.schedule.last_writes import Mutations


@dataclass(frozen=True, slots=True)
class CompiledAten:
    """`call(*flat inputs)` gives a tuple; it must run with grad mode off. `module` is None where a stage failed, and where an
    earlier process had made it.

    `aten` is the graph it was made of, `paths` the shared objects of its C++ kernels.
    """

    aten: fx.GraphModule
    call: Callable[..., tuple[Any, ...]]
    module: KernelModule | None
    notes: tuple[Explanation, ...]
    paths: dict[str, str] = field(default_factory=dict)
    timings: Timings | None = None
    runs_operators: bool = False
    """Whether a stage failed, so that the graph runs as its operators."""
    launches: Launches | None = None
    """None where it has no kernels."""


def compile_aten(
    graph: fx.GraphModule,
    example_inputs: Any = None,
    options: Any = None,
    clock: StageClock = nullcontext,
    empties_its_list: bool = False,
    is_read: bool = True,
) -> CompiledAten:
    """Never raises for a program: a failed stage is a note, and the graph runs as its operators.

    `clock(stage)` is entered around each stage, to time and announce it. With `empties_its_list`, `call.with_list` takes the
    inputs in a list that it empties: each is free when the graph has read it for the last time. `is_read`: somebody wants to see
    what the stages make.
    """
    finish = _begun(graph, example_inputs, options, clock, (), empties_its_list, is_read)
    with clock("build"):
        return finish()


def compile_together(
    graphs: Sequence[tuple[fx.GraphModule, Any]],
    options: Any = None,
    clock: StageClock = nullcontext,
    mutations: Mutations = (),
    is_read: bool = True,
    shared: Sequence[tuple[int, int]] = (),
) -> list[CompiledAten]:
    """Several graphs, a forward and its backwards: while one is built, by the system's compiler or by workers, the next is
    generated. All but the first have a `call.with_list`.

    `mutations` are those of the first: (input, output) where the caller copies the output to the input. Such an output may be
    the input itself, already written. `shared` are outputs of the first and the inputs of the second that they are and nobody else sees:
    they may lie otherwise than the graphs say.
    """
    turned = _turned_pair(graphs[0][0], graphs[1][0], shared, options) if shared else None
    told = cache(text_of)
    with ThreadPoolExecutor(len(graphs)) as threads:
        building = []
        for number, (graph, inputs) in enumerate(graphs):
            together = None
            if turned is not None and number < 2:  # the pair
                together = _Together(graphs[1 - number][0], tuple(shared), partial(turned, number), told)
            finish = _begun(graph, inputs, options, clock, () if number else mutations, number > 0, is_read, together)
            building.append(threads.submit(finish))
        with clock("build"):
            made = [each.result() for each in building]
    if turned is not None and len({each.runs_operators for each in made}) > 1:
        return compile_together(graphs, options, clock, mutations, is_read)  # operators give and take what lies as the graphs say
    return made


@dataclass(frozen=True)
class _Together:
    """What a graph has in common with another: how that lies follows from both."""

    other: fx.GraphModule
    shared: tuple[tuple[int, int], ...]
    turned: Callable[[], Turned]
    told: Callable[[fx.GraphModule], str | None]
    """Both as text, each written once."""


def _turned_pair(
    forward: fx.GraphModule, backward: fx.GraphModule, shared: Sequence[tuple[int, int]], options: Any
) -> Callable[[int], Turned] | None:
    """How the two lie, found when one of them is lowered: not where an earlier process did that."""
    if not any(getattr(node.meta.get("device"), "type", None) == "cuda" for node in forward.graph.nodes):
        return None

    @cache
    def both() -> tuple[Turned, Turned]:
        from dynascope.loops.lower.channels_last import turned_pair  # as what generates

        return turned_pair(forward, backward, shared, options)

    return lambda number: both()[number]


def _begun(
    graph: fx.GraphModule,
    example_inputs: Any,
    options: Any,
    clock: StageClock,
    mutations: Mutations,
    empties_its_list: bool,
    is_read: bool,
    together: _Together | None = None,
) -> Callable[[], CompiledAten]:
    """What is left to do when the kernels' text is there."""
    key = None
    if not is_read and _may_be_kept(options):
        with clock("lower"):
            beside, told = (None, text_of) if together is None else ((together.other, together.shared), together.told)
            key = kept_graphs.key_of(graph, options, mutations, empties_its_list, beside, told)
            kept = kept_graphs.load(key) if key is not None else None
        if kept is not None:
            return lambda: _built(graph, kept, options)
    turned = None if together is None else together.turned
    made = _generate(graph, example_inputs, options, clock, mutations, empties_its_list, turned)
    return lambda: _built(graph, made, options, key)


def _may_be_kept(options: Any) -> bool:
    """Strict mode verifies what each stage makes, some options want it made, and products are measured with it at hand."""
    if options is None or not options.cache or options.strict:
        return False
    return not (options.measures_products or options.looks_only or options.profile or options.levels)


def _generate(*given: Any) -> KernelModule | Explanation:
    from dynascope.runtime.generate import generate  # half of the engine, of no use where an earlier process did it

    return generate(*given)


def _built(
    graph: fx.GraphModule, made: KernelModule | Runnable | Explanation, options: Any, key: str | None = None
) -> CompiledAten:
    """`key` is where what was made is kept."""
    if isinstance(made, Explanation):
        return _as_operators(graph, made)
    module = None if isinstance(made, Runnable) else made
    if options is not None and options.looks_only:
        return CompiledAten(graph, run_operators(graph), module, (), launches=None if module is None else _runnable_of(module).launches)
    try:
        runnable = made if isinstance(made, Runnable) else _runnable_of(made)
        built = build(runnable, options, stacks_by_name(graph.graph.nodes))
    except ToolchainError as error:
        return _as_operators(graph, RunsAsOperators(error.reason.message(), error.reason.remedy()).explain())
    except Exception as error:
        return _as_operators(graph, GenerationFailed("build", f"{type(error).__name__}: {error}").explain())
    if key is not None:
        kept_graphs.keep(key, runnable)
    return CompiledAten(graph, built.call, module, built.notes, built.paths, built.timings, launches=runnable.launches)


def _as_operators(graph: fx.GraphModule, why: Explanation) -> CompiledAten:
    return CompiledAten(graph, run_operators(graph), None, (why,), runs_operators=True)


def _runnable_of(module: KernelModule) -> Runnable:
    from dynascope.codegen.module import runnable_of  # loaded where the module was made

    return runnable_of(module)
