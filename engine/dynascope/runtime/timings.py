"""How long each kernel and each library call of a wrapper takes, over all calls.

timings = Timings(is_cuda=False)
names = timings.around(names, ["mul_kernel"], ["call_addmm"])      what the wrapper calls, each noting its time
timings.costs()                                                    {("mul_kernel", 5): (calls, seconds)} by the wrapper's line
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

Key = tuple[str, int]
EVENTS_KEPT = 4096


class Timings:
    """On a GPU the time between two events on the stream counts, else the clock."""

    is_counting = True
    """Of all of them: not while a graph runs for us rather than for the program."""

    def __init__(self, is_cuda: bool) -> None:
        self._is_cuda = is_cuda
        self._costs: dict[Key, list[float]] = defaultdict(lambda: [0, 0.0])
        self._events: list[tuple[Key, Any, Any]] = []

    def around(self, names: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
        timed = self._on_device if self._is_cuda else self._on_clock
        return {**names, **{name: timed(name, names[name]) for name in wanted if name in names}}

    @classmethod
    @contextmanager
    def uncounted(cls) -> Iterator[None]:
        cls.is_counting = False
        try:
            yield
        finally:
            cls.is_counting = True

    def costs(self) -> dict[Key, tuple[int, float]]:
        self._settle()
        return {key: (int(calls), seconds) for key, (calls, seconds) in self._costs.items()}

    def _on_clock(self, name: str, function: Callable) -> Callable:
        costs, now, frame = self._costs, time.perf_counter, sys._getframe

        def timed(*arguments: Any, **keywords: Any) -> Any:
            if not self.is_counting:
                return function(*arguments, **keywords)
            start = now()
            result = function(*arguments, **keywords)
            taken = now() - start
            cost = costs[name, frame(1).f_lineno]
            cost[0] += 1
            cost[1] += taken
            return result

        return timed

    def _on_device(self, name: str, function: Callable) -> Callable:
        frame = sys._getframe

        def timed(*arguments: Any, **keywords: Any) -> Any:
            if not self.is_counting or torch.cuda.is_current_stream_capturing():
                return function(*arguments, **keywords)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            result = function(*arguments, **keywords)
            end.record()
            self._events.append(((name, frame(1).f_lineno), start, end))
            if len(self._events) > EVENTS_KEPT:
                self._settle()
            return result

        return timed

    def _settle(self) -> None:
        events, self._events = self._events, []
        if events:
            torch.cuda.synchronize()
        for key, start, end in events:
            cost = self._costs[key]
            cost[0] += 1
            cost[1] += start.elapsed_time(end) / 1000
