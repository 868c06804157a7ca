"""A captured graph to machine code: differentiate, lower, fuse, emit, build. What the default backend does.

A graph that a stage cannot take runs operator by operator, with the reason in `notes`; it is never lost. A refusal because
a number is needed as a constant is different: capture can fix that number, so it is raised as `NumberNeeded`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from dynascope.codegen.kernels import KernelModule
from dynascope.codegen.module import emit
from dynascope.configuration import Options
from dynascope.grad import DifferentiationRefused, GradOptions, GradPair, bridge, differentiate
from dynascope.grad.reasons import VaryingNumberNeeded
from dynascope.loops.lower import lower
from dynascope.native.toolchain import ToolchainError
from dynascope.report.reason import Explanation
from dynascope.runtime.build import build
from dynascope.schedule.fusion import fuse

StageClock = Callable[[str], AbstractContextManager[None]]


class NumberNeeded(Exception):
    """Input `index` of the graph varies, and an operator needs it as a constant."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


@dataclass(frozen=True)
class KernelSet:
    """One ATen graph and what became of it. `module` is None where it runs operator by operator."""

    aten: Any
    call: Callable
    module: KernelModule | None = None
    path: str | None = None
    notes: tuple[Explanation, ...] = ()


@dataclass(frozen=True)
class CompiledGraph:
    """`function` takes the graph's inputs and returns its outputs. The rest is what the stages made, for the report."""

    function: Callable
    torch_graph: Any
    pair: GradPair | None = None
    forward: KernelSet | None = None
    backward: KernelSet | None = None
    notes: tuple[Explanation, ...] = ()


def compile_graph(graph: Any, example_inputs: tuple, options: Options, region: str, clock: StageClock) -> CompiledGraph:
    """Run every stage on `graph` (Torch IR). `clock(stage)` times and announces each. Raises `NumberNeeded`."""
    try:
        with clock("differentiate"):
            pair = differentiate(graph, list(example_inputs), GradOptions(random=options.random, region=region))
    except DifferentiationRefused as refusal:
        if isinstance(refusal.reason, VaryingNumberNeeded) and refusal.reason.placeholder is not None:
            raise NumberNeeded(refusal.reason.placeholder) from refusal
        return CompiledGraph(graph.forward, graph, notes=(_explain(refusal, graph),))
    forward = compile_aten(pair.forward, example_inputs, options, clock)
    backward = compile_aten(pair.backward, None, options, clock) if pair.backward is not None else None
    function = bridge(pair, forward.call, backward.call if backward else None)
    return CompiledGraph(function, graph, pair, forward, backward, forward.notes + (backward.notes if backward else ()))


def compile_aten(graph: Any, example_inputs: tuple | None, options: Options, clock: StageClock) -> KernelSet:
    """An ATen graph as kernels; operator by operator where no compiler can build them."""
    with clock("lower"):
        program = lower(graph, example_inputs, options)
    with clock("fuse"):
        plan = fuse(program, options)
    with clock("emit"):
        module = emit(plan, options)
    with clock("build"):
        try:
            built = build(module, options)
        except ToolchainError as error:
            return KernelSet(graph, graph.forward, notes=(error.reason.explain(),))
    return KernelSet(graph, built.call, module, built.path, built.notes)


def _explain(refusal: DifferentiationRefused, graph: Any) -> Explanation:
    stack = next((node.meta.get("user_stack", ()) for node in graph.graph.nodes if node.name == refusal.node), ())
    return refusal.reason.explain(stack[-1].span if stack else None, stack)
