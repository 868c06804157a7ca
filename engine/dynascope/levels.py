"""The levels of a graph that nothing runs and a person may want to read: the joint graph, ATen as autograd made it, prims.

    texts_of(graph)     joint, aten-forward, aten-backward, prims-forward, prims-backward

Torch IR (`torch`) and core ATen (`core-forward`, `core-backward`) are what was compiled. The others are recorded again from the
program that a compiled graph keeps, when a report is asked for them: after the program has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dynascope.frame import hook
from dynascope.grad import DifferentiationRefused
from dynascope.grad.differentiate import Joint, joint_of
from dynascope.grad.ends import backward_ends, forward_ends, joint_ends
from dynascope.grad.inputs import scope_of
from dynascope.grad.options import Level
from dynascope.grad.pair import GradPair
from dynascope.grad.printing import print_graph
from dynascope.grad.program import Program
from dynascope.graph_compiler import CompiledGraph
from dynascope.report.facts import StageText

LEVELS: tuple[Level, ...] = ("aten", "core", "prims")


def texts_of(graph: CompiledGraph) -> tuple[StageText, ...]:
    """What cannot be recorded is missing: the graph's notes say why it has no kernels either. What was compiled is there already."""
    programs = [part.pair.program for part in graph.parts or (graph,) if part.pair is not None]
    with ExitStack() as stack:
        for state in (hook.suspended(), torch._C.DisableTorchFunction(), _disable_current_modes(), torch.inference_mode(False)):
            stack.enter_context(state)
        return tuple(text for program in programs if program for text in _texts_of_program(program, graph.level))


def _texts_of_program(program: Program, compiled: str) -> Iterator[StageText]:
    try:
        for level in LEVELS:
            if level == compiled != "aten":
                continue
            joint = recorded_at(program, level)
            if level == "aten":
                graph = joint.graph()
                yield _text("joint", graph, "joint", joint_ends(joint.recorded.results, graph, program.names))
            if level != compiled:
                yield from _texts_of_pair(level, joint.pair())
    except DifferentiationRefused:
        return


def recorded_at(program: Program, level: Level) -> Joint:
    """Nothing that this relies on is kept: no code is made of it."""
    scope = scope_of(program.inputs)
    relied_on = 0 if scope is None else len(scope.log)
    try:
        return joint_of(replace(program, options=replace(program.options, level=level)))
    finally:
        if scope is not None:
            scope.log.take_back(relied_on)


def _texts_of_pair(level: str, pair: GradPair) -> Iterator[StageText]:
    yield _text(f"{level}-forward", pair.forward, "forward", forward_ends(pair, pair.forward))
    if pair.backward is not None:
        yield _text(f"{level}-backward", pair.backward, "backward", backward_ends(pair, pair.backward))


def _text(stage: str, graph: torch.fx.GraphModule, name: str, ends: Iterator[str]) -> StageText:
    text, links = print_graph(graph, name, ends)
    return StageText(stage, "python", text, links)
