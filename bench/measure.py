"""Interleaved timing: every contestant runs in every round, so that drift of the machine touches all alike.

ratios = compare({"ours": f, "torch.compile": g}, base="torch.compile")
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Seconds per call of each round, and how they compare round by round."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, base: str) -> Ratio:
        return ratio_of(self.seconds[name], self.seconds[base])


@dataclass(frozen=True)
class Ratio:
    """The median of the rounds' ratios with its lower and upper quartile."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def ratio_of(ours: list[float], theirs: list[float]) -> Ratio:
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    if len(ratios) < 3:
        return Ratio(statistics.median(ratios), ratios[0], ratios[-1])
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Ratio(middle, low, high)


def compare(
    contestants: dict[str, Callable[[], object]],
    *,
    rounds: int = 21,
    seconds_a_round: float = 0.02,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Time each contestant in turn, `rounds` times. Each is warmed first and called often enough to fill its share.

    Work of one thread may be timed by `time.thread_time`, which other programs on the machine disturb less.
    """
    calls = {name: _calls_for(function, seconds_a_round, clock) for name, function in contestants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, function in contestants.items():
            seconds[name].append(_time(function, calls[name], clock))
    return Measured(seconds)


def _calls_for(function: Callable[[], object], seconds: float, clock: Callable[[], float]) -> int:
    for _ in range(20):
        function()
    return max(1, int(seconds / _time(function, 10, clock)))


def _time(function: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls
