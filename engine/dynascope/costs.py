"""What a profiled program's graphs cost: each kernel's and library call's time over the run, and eager's time beside it.

recorder.check = Profiler(recorder)      measures each graph beside eager when it is first called
costs_of(graph, recorder)                adds what is known by now to the facts of a graph
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from dynascope.capture import CapturedGraph
from dynascope.checking.runs import same_numbers, taken
from dynascope.frame import hook
from dynascope.graph_compiler import CompiledGraph
from dynascope.recording import Recorder
from dynascope.report.facts import BesideEager, CostFact, ExternFact, GraphFact, KernelFact
from dynascope.runtime.compile_aten import CompiledAten
from dynascope.runtime.timings import Timings

TIMES = 10
SECONDS = 1.0
"""For all ways of running one graph, from their second runs on."""
COPIED = 256 * 1024 * 1024
COPIES = 5


class Profiler:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __call__(self, name: str, captured: CapturedGraph, function: Callable, compile: Any) -> Callable:
        waiting = [True]

        def measured(*inputs: Any) -> Any:
            if waiting:
                waiting.clear()
                with hook.suspended(), Timings.uncounted():
                    self._measure(captured, function, inputs)
            return function(*inputs)

        return measured

    def _measure(self, captured: CapturedGraph, function: Callable, inputs: Sequence[Any]) -> None:
        """Nothing where a graph cannot be run on copies of its inputs."""
        try:
            if self._recorder.bandwidth is None:
                self._recorder.bandwidth = bandwidth(next(v.device for v in inputs if isinstance(v, torch.Tensor)))
            compiled, eager = fastest((function, captured.module), inputs)
            taken = BesideEager(compiled, eager)
        except Exception:
            return
        self._recorder.beside_eager[id(captured.module)] = taken


def fastest(calls: Sequence[Callable], inputs: Sequence[Any]) -> list[float]:
    """Seconds that each takes with its backward pass once it is warm, in turn: what else the machine does meets all of them."""
    best = [float("inf")] * len(calls)
    for call in calls:
        _seconds(call, inputs)
    began = time.perf_counter()
    for _ in range(TIMES):
        best = [min(known, _seconds(call, inputs)) for known, call in zip(best, calls, strict=True)]
        if time.perf_counter() - began > SECONDS:
            break
    return best


def _seconds(call: Callable, inputs: Sequence[Any]) -> float:
    given, leaves = taken(inputs)
    wanted = [leaf for leaf in leaves if leaf is not None]
    with same_numbers():
        _wait(inputs)
        start = time.perf_counter()
        outputs = [value for value in call(*given) if isinstance(value, torch.Tensor) and value.requires_grad]
        if outputs and wanted:
            torch.autograd.grad(outputs, wanted, [torch.ones_like(value) for value in outputs], allow_unused=True)
        _wait(inputs)
        return time.perf_counter() - start


def bandwidth(device: torch.device) -> float:
    """Bytes a second, read and written."""
    source = torch.empty(COPIED if device.type == "cuda" else COPIED // 4, dtype=torch.uint8, device=device).fill_(1)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(COPIES):
        _wait([source])
        start = time.perf_counter()
        target.copy_(source)
        _wait([source])
        best = min(best, time.perf_counter() - start)
    return 2 * source.numel() / best


def _wait(values: Sequence[Any]) -> None:
    if any(isinstance(value, torch.Tensor) and value.is_cuda for value in values):
        torch.cuda.synchronize()


def costs_of(
    graph: CompiledGraph, recorder: Recorder
) -> Callable[[GraphFact, tuple[KernelFact, ...]], tuple[GraphFact, tuple[KernelFact, ...]]]:
    def measured(fact: GraphFact, kernels: tuple[KernelFact, ...]) -> tuple[GraphFact, tuple[KernelFact, ...]]:
        externs: list[ExternFact] = []
        costs: dict[tuple[str, str], CostFact] = {}
        for phase, made in graph.phases():
            if made is not None and made.timings is not None:
                calls, of_kernels = _split(made)
                costs |= {(phase, name): cost for name, cost in of_kernels.items()}
                externs += _with_costs([extern for extern in fact.externs if extern.phase == phase], calls)
        beside = recorder.beside_eager.get(id(graph.torch_graph))
        done = tuple(replace(kernel, cost=costs.get((kernel.phase, kernel.name))) for kernel in kernels)
        return replace(fact, externs=tuple(externs) or fact.externs, beside_eager=beside), done

    return measured


def _split(made: CompiledAten) -> tuple[list[CostFact], dict[str, CostFact]]:
    """The library calls' in the order of the wrapper, the kernels' by name, over all steps that run them."""
    assert made.timings is not None and made.module is not None
    kernels = {kernel.name for kernel in made.module.distinct}
    found = {key: CostFact(calls, seconds) for key, (calls, seconds) in made.timings.costs().items()}
    calls = [cost for (name, _), cost in sorted(found.items(), key=lambda item: item[0][1]) if name not in kernels]
    of_kernels: dict[str, CostFact] = {}
    for (name, _), cost in found.items():
        if name in kernels:
            other = of_kernels.get(name, CostFact(0, 0.0))
            of_kernels[name] = CostFact(other.calls + cost.calls, other.seconds + cost.seconds)
    return calls, of_kernels


def _with_costs(externs: list[ExternFact], costs: list[CostFact]) -> list[ExternFact]:
    if len(externs) != len(costs):
        return externs
    return [replace(extern, cost=cost) for extern, cost in zip(externs, costs, strict=True)]
