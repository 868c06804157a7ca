"""All back stages in order, for one ATen graph; what cannot be built runs as its operators.

compiled = compile_graph(graph, example_inputs, options)
compiled.call(*flat inputs)  ->  tuple
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx

from dynascope.codegen.kernels import KernelModule
from dynascope.codegen.module import emit
from dynascope.loops.lower import lower
from dynascope.native.toolchain import ToolchainError
from dynascope.report.reason import Explanation
from dynascope.runtime.build import build
from dynascope.runtime.operators import run_operators
from dynascope.runtime.reasons import GenerationFailed, RunsAsOperators
from dynascope.schedule.fusion import fuse


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """`call(*flat inputs)` gives a tuple; it must run with grad mode off. `module` is None where a stage failed.

    `seconds` by stage: lower, fuse, emit, build. `path` is the shared object.
    """

    call: Callable[..., tuple[Any, ...]]
    module: KernelModule | None
    notes: tuple[Explanation, ...]
    seconds: dict[str, float]
    path: str | None = None


def compile_graph(graph: fx.GraphModule, example_inputs: Any = None, options: Any = None) -> CompiledGraph:
    """Never raises for a program: a failed stage is a note, and the graph runs as its operators."""
    seconds: dict[str, float] = {}
    value: Any = graph
    stages = (
        ("lower", lambda g: lower(g, example_inputs, options)),
        ("fuse", lambda p: fuse(p, options)),
        ("emit", lambda s: emit(s, options)),
    )
    for name, stage in stages:
        start = time.perf_counter()
        try:
            value = stage(value)
        except Exception as error:
            note = GenerationFailed(name, f"{type(error).__name__}: {error}").explain()
            return CompiledGraph(run_operators(graph), None, (note,), seconds)
        seconds[name] = time.perf_counter() - start
    return _built(graph, value, seconds, options)


def _built(graph: fx.GraphModule, module: KernelModule, seconds: dict[str, float], options: Any) -> CompiledGraph:
    start = time.perf_counter()
    try:
        built = build(module, options)
    except ToolchainError as error:
        count = sum(kernel is not None for kernel in module.kernels)
        note = RunsAsOperators(count, error.reason.message(), error.reason.remedy()).explain()
        return CompiledGraph(run_operators(graph), module, (note,), seconds)
    seconds["build"] = time.perf_counter() - start
    return CompiledGraph(built.call, module, built.notes, seconds, built.path)
