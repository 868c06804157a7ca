"""A captured graph to machine code: differentiate, lower, fuse, emit, build. What the default backend does.

A graph that a stage cannot take runs operator by operator, with the reason in `notes`; it is never lost. A refusal because
a number is needed as a constant is different: capture can fix that number, so it is raised as `NumberNeeded`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynascope.configuration import Options
from dynascope.grad import DifferentiationRefused, GradOptions, GradPair, bridge, differentiate
from dynascope.grad.reasons import VaryingNumberNeeded
from dynascope.meta_kernels import autocast
from dynascope.report.reason import Explanation
from dynascope.runtime import launching
from dynascope.runtime.compile_aten import CompiledAten, StageClock, compile_together


class NumberNeeded(Exception):
    """Input `index` of the graph varies, and an operator needs it as a constant."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


@dataclass(frozen=True)
class CompiledGraph:
    """`function` takes the graph's inputs and returns its outputs. The rest is what the stages made, for the report."""

    function: Callable
    torch_graph: Any
    pair: GradPair | None = None
    forward: CompiledAten | None = None
    backward: CompiledAten | None = None
    notes: tuple[Explanation, ...] = ()


def compile_graph(graph: Any, example_inputs: tuple, options: Options, region: str, clock: StageClock) -> CompiledGraph:
    """Run every stage on `graph` (Torch IR). `clock(stage)` times and announces each. Raises `NumberNeeded`."""
    launching.begin()
    try:
        with clock("differentiate"):
            pair = differentiate(graph, list(example_inputs), GradOptions(random=options.random, region=region))
    except DifferentiationRefused as refusal:
        if isinstance(refusal.reason, VaryingNumberNeeded) and refusal.reason.placeholder is not None:
            raise NumberNeeded(refusal.reason.placeholder) from refusal
        return CompiledGraph(graph.forward, graph, notes=(_explain(refusal, graph),))
    graphs = [(pair.forward, example_inputs), (pair.backward, None)]
    forward, *others = compile_together(
        [made for made in graphs if made[0] is not None], options, clock, _written_by_kernels(pair)
    )
    backward = others[0] if others else None
    function = bridge(pair, forward.call, backward.call if backward else None)
    if autocast.active_devices():
        function = autocast.without_autocast(function)
    return CompiledGraph(function, graph, pair, forward, backward, forward.notes + (backward.notes if backward else ()))


def _written_by_kernels(pair: GradPair) -> tuple[tuple[int, int], ...]:
    """The inputs whose new contents kernels may write. Not where autograd stands between (it must see an output for itself),
    nor through `.data` (the bridge copies to another tensor object then, and would copy the memory to itself)."""
    if pair.backward is not None:
        return ()
    return tuple((m.input, m.output) for m in pair.mutations if not (m.records_history or m.is_hidden))


def _explain(refusal: DifferentiationRefused, graph: Any) -> Explanation:
    stack = next((node.meta.get("user_stack", ()) for node in graph.graph.nodes if node.name == refusal.node), ())
    return refusal.reason.explain(stack[-1].span if stack else None, stack)
