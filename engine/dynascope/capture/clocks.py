"""Readings of a clock, as what a node of a graph calls.

    Reading(time.perf_counter)()     the seconds, when the kernels before it were launched
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

from dynascope.dataclass import dataclass
from dynascope.sizes import Relation
from dynascope.sizes.expression import roots_in

NAMES = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
CLOCKS: tuple[Callable[[], int | float], ...] = tuple(
    getattr(time, f"{name}{end}") for name in NAMES for end in ("", "_ns") if hasattr(time, f"{name}{end}")
)


def clock_among(numbers: Mapping[Any, fx.Node], relation: Relation) -> str:
    """The clock whose reading a relation asks about, by name; empty where it asks about none. `numbers`: the nodes that give each."""
    asked = set(relation.roots())
    read = (node.target.clock for known, node in numbers.items() if isinstance(node.target, Reading) and asked & roots_in(known))
    return next((f"time.{clock.__name__}" for clock in read), "")


@dataclass(frozen=True, eq=False)
class Reading:
    clock: Callable[[], int | float]

    def __post_init__(self) -> None:
        # As the graph's text calls it, which Python can run.
        object.__setattr__(self, "__name__", self.clock.__name__)
        object.__setattr__(self, "__module__", "time")

    def __call__(self) -> Any:
        return self.clock()
