"""Compiles a program once over varying sizes, runs it at many, and compares each run with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from dynascope.codegen.kernels import KernelModule
from dynascope.codegen.module import emit, runnable_of
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall
from dynascope.runtime.build import build
from dynascope.schedule.fusion import fuse
from symbolic_graphs import SymbolicGraph, make_inputs, symbolic_graph


def generated(function: Callable[..., Any], inputs: list[Any], hints: dict[str, Any], **options: Any) -> tuple[SymbolicGraph, KernelModule]:
    graph = symbolic_graph(function, inputs, hints, **options)
    return graph, emit(fuse(lower(graph.module)))


def externs(module: KernelModule) -> list[str]:
    return [step.origin.operator for step in module.schedule.steps if isinstance(step, ExternCall)]


def check_at(
    function: Callable[..., Any], inputs: list[Any], hints: dict[str, Any], others: Iterable[dict[str, Any]],
    tolerance: float | None = None, **options: Any,
) -> tuple[SymbolicGraph, KernelModule]:  # fmt: skip
    """Same values, dtypes, sizes and strides as eager at the hints and at all others that the relations admit."""
    graph, module = generated(function, inputs, hints, **options)
    call = build(runnable_of(module)).call
    served = 0
    for values in [hints, *others]:
        if not graph.admits(values):
            continue
        served += 1
        with torch.no_grad():
            expected = function(*make_inputs(inputs, values))
            actual = call(*graph.arguments(values))
        expected = expected if isinstance(expected, (list, tuple)) else (expected,)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            if not isinstance(e, torch.Tensor):
                assert a == e and type(a) is type(e), values
                continue
            accuracy = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
            torch.testing.assert_close(
                a, e, equal_nan=True, check_stride=e.numel() > 1, msg=lambda m, v=values: f"at {v}: {m}", **accuracy
            )
    assert served > 1, f"the relations {graph.relations()} admit no other size"
    return graph, module


def texts(module: KernelModule) -> str:
    """All that a hint must not get into."""
    from dynascope.loops.printing import print_program
    from dynascope.schedule.printing import print_schedule

    schedule = module.schedule
    return "\n".join([print_program(schedule.program), print_schedule(schedule), module.source, module.wrapper])
