"""What calls on a GPU take: milliseconds of several in turn, and megabytes of one.

    in_turn({"eager": f, "ours": g}, rounds=9, calls=5)  ->  {"eager": 3.1, "ours": 1.2}
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

Call = Callable[[], object]


def peak_megabytes(call: Call) -> float:
    """Of one call, above what is held before it."""
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - held) / 1e6


def in_turn(calls_of: dict[str, Call], rounds: int, calls: int) -> dict[str, float]:
    """Milliseconds of a call: the median of rounds, a round of each after the other."""
    times: dict[str, list[float]] = {side: [] for side in calls_of}
    for _ in range(rounds):
        for side, call in calls_of.items():
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(calls):
                call()
            torch.cuda.synchronize()
            times[side].append((time.perf_counter() - started) / calls * 1e3)
    return {side: statistics.median(found) for side, found in times.items()}


def kernels_of(call: Call, calls: int) -> list[tuple[float, int, str]]:
    """Milliseconds, launches and name of each kernel in one call, the dearest first."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    found = [(event.self_device_time_total / 1e3 / calls, event.count // calls, event.key) for event in profiled.key_averages()]
    return sorted(found, reverse=True)
