"""What is called for a forward graph and for its backward graphs: what was built, or what a mode makes of it.

    calls = as_built(forward, 1)
    calls.forward(*inputs)
    calls.of_backward[0](backward)(*saved, *tangents)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.report.reason import Explanation
from dynascope.runtime.compile_aten import CompiledAten

Call = Callable[..., tuple[Any, ...]]

Marks = tuple[tuple[int, int], ...]
"""Of what a forward graph makes for a backward graph alone: (output, its place among the other's inputs)."""


@dataclass(frozen=True, slots=True)
class GraphCalls:
    """`of_backward` has, for each backward pass, what gives the call of its graph, and of graphs for a part of its tangents."""

    forward: Call
    of_backward: tuple[Callable[[CompiledAten], Call], ...]
    notes: tuple[Explanation, ...] = ()
    """What of the mode is not done."""


def as_built(forward: CompiledAten, backwards: int) -> GraphCalls:
    return GraphCalls(forward.call, (call_as_built,) * backwards)


def call_as_built(compiled: CompiledAten) -> Call:
    return compiled.call
