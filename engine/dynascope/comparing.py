"""Each compiled graph beside eager when it is first called: whether it gives the same, and how long both take.

recorder.check = Comparer(recorder)      facts go to the recorder, and from there to the facts of the graph
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.backends import kernels_written
from dynascope.capture import CapturedGraph
from dynascope.checking.distances import differs_more, distance
from dynascope.checking.runs import doubled, in_eager, same_numbers, taken
from dynascope.costs import fastest
from dynascope.frame import hook
from dynascope.recording import Recorder
from dynascope.report.facts import BesideEager

TOLERANCE = 1e-4
"""Of the largest value of a tensor: another order of additions is no difference."""
LOW_PRECISION = 2e-2
SMALLEST = 1e-6


class Comparer:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __call__(self, name: str, captured: CapturedGraph, function: Callable, compile: Any) -> Callable:
        waiting = [True]

        def compared(*inputs: Any) -> Any:
            if waiting:
                waiting.clear()
                with hook.suspended():
                    self._compare(captured, function, inputs)
            return function(*inputs)

        return compared

    def _compare(self, captured: CapturedGraph, function: Callable, inputs: Sequence[Any]) -> None:
        start = time.perf_counter()
        try:
            found = _everything(function, inputs)
            first = time.perf_counter() - start
            difference = _difference(found, expected := _everything(captured.module, inputs))
            if 1 < difference < float("inf"):
                # A gradient that is zero but for roundings is as far from eager's as it is large.
                difference = _difference(found, expected, _in_double(captured.module, inputs))
            compiled, eager = fastest((function, captured.module), inputs)
            fact = BesideEager(
                compiled,
                eager,
                first=first,
                difference=difference,
                kernels=kernels_written(),
            )
        except Exception as error:
            fact = BesideEager(0.0, 0.0, failure=f"{type(error).__name__}: {error}".splitlines()[0])
        self._recorder.beside_eager[id(captured.module)] = fact


def _everything(call: Callable, inputs: Sequence[Any], change: Callable[[Any], Any] = lambda value: value) -> list[Any]:
    """Results, the inputs after the call, and gradients."""
    given, leaves = taken(inputs, change)
    wanted = [leaf for leaf in leaves if leaf is not None]
    with same_numbers():
        outputs = list(call(*given))
        results = [value for value in outputs if isinstance(value, torch.Tensor) and value.requires_grad]
        gradients: Sequence[Any] = ()
        if results and wanted:
            # Not ones: a softmax has no gradient for these, and rounding would be compared with rounding.
            numbers = torch.Generator().manual_seed(0)
            drawn = (torch.rand(each.shape, generator=numbers, dtype=torch.float32, device="cpu") for each in results)
            tangents = [(0.5 + each).to(value) for each, value in zip(drawn, results, strict=True)]
            gradients = torch.autograd.grad(results, wanted, tangents, allow_unused=True)
    return [value.detach() if isinstance(value, torch.Tensor) else value for value in (*outputs, *given, *gradients)]


def _in_double(module: Any, inputs: Sequence[Any]) -> list[Any]:
    """The same in float64, with the random numbers that eager drew; nothing where it cannot be run so."""
    eager = in_eager(module, inputs)
    try:
        with doubled(module, eager) as (run, change):
            return [] if eager.trouble else _everything(run, inputs, change)
    except Exception:
        return []


def _difference(found: list[Any], expected: list[Any], exact: Sequence[Any] = ()) -> float:
    """The largest one, in tolerances: equal up to 1. With the `exact` values, what is no further from these than eager is."""
    largest = 0.0 if len(found) == len(expected) else float("inf")
    exact = exact if len(exact) == len(expected) else [None] * len(expected)
    for a, b, reference in zip(found, expected, exact, strict=False):
        if not isinstance(b, torch.Tensor) or not isinstance(a, torch.Tensor):
            largest = largest if type(a) is type(b) and (a == b or a != a) else float("inf")
        elif a.shape != b.shape or a.dtype != b.dtype:
            largest = float("inf")
        elif a.numel():
            apart = _of_tensors(a, b)
            if 1 < apart < float("inf") and isinstance(reference, torch.Tensor) and reference.shape == b.shape:
                is_noise = not differs_more(distance(b, reference), distance(a, reference), a.dtype)
                apart = 1.0 if is_noise else apart
            largest = max(largest, apart)
    return largest


def _of_tensors(a: torch.Tensor, b: torch.Tensor) -> float:
    if torch.equal(a, b):
        return 0.0
    if not (b.dtype.is_floating_point or b.dtype.is_complex):
        return float("inf")
    tolerance = LOW_PRECISION if b.dtype in (torch.float16, torch.bfloat16) else TOLERANCE
    wide = torch.complex128 if b.dtype.is_complex else torch.float64
    a, b = a.to(wide), b.to(wide)
    if not torch.equal(a.isnan(), b.isnan()) or not torch.equal(a.isinf(), b.isinf()):
        return float("inf")
    scale = max(float(b[b.isfinite()].abs().max()) if b.isfinite().any() else 0.0, SMALLEST)
    apart = (a - b).abs()[b.isfinite()]
    return float(apart.max()) / (scale * tolerance) if apart.numel() else 0.0
