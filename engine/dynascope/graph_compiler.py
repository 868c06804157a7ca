"""A captured graph to machine code: differentiate, lower, fuse, emit, build. What the default backend does.

A graph that a stage cannot take runs operator by operator, with the reason in `notes`; it is never lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynascope.configuration import Options
from dynascope.report.reason import Explanation


@dataclass(frozen=True)
class KernelSet:
    """One ATen graph on its way to machine code: what each stage made of it."""

    aten: Any
    program: Any
    schedule: Any
    module: Any


@dataclass(frozen=True)
class CompiledGraph:
    """`function` takes the graph's inputs and returns its outputs. The rest is what the stages made, for the report."""

    function: Callable
    torch_graph: Any
    pair: Any = None
    forward: KernelSet | None = None
    backward: KernelSet | None = None
    notes: tuple[Explanation, ...] = ()


def compile_graph(graph: Any, example_inputs: list, options: Options, clock: Any) -> CompiledGraph:
    """Run every stage on `graph` (Torch IR). `clock(stage)` is a context manager that times and announces each."""
    raise NotImplementedError
