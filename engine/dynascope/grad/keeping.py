"""Which forward values lie in memory whatever is saved, and which are carried past whole layers.

    h = mm(x, w)             written: a library call makes it
    y = x1 + gelu(h)         y, read by the next layer and added to again behind it: a stream

    residence_of(steps)  ->  Residence(written={h, y, ...}, streams={y, ...})

A stream that is computed again from the layers' outputs has to be there from the first layer of the backward pass to the last: all of
its states are then made at once, at the peak. To keep each state costs the same memory later and no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.flop_counter import flop_registry

from dynascope.dataclass import dataclass
from dynascope.grad.operators import is_view
from dynascope.grad.tape import Step, Value


@dataclass(frozen=True, slots=True)
class Residence:
    """Identities of values. `written`: in memory anyway, since a contraction makes or reads them, or they outlive one. `streams`: those
    that outlive a contraction and are computed from one that does."""

    written: frozenset[int]
    streams: frozenset[int]


def residence_of(steps: Sequence[Step]) -> Residence:
    """Of forward steps in running order. A contraction is an operator whose arithmetic torch counts (a product of matrices, a
    convolution, attention)."""
    levels: dict[int, int] = {}
    sources: dict[int, Value] = {}
    written: set[int] = set()
    outlives: set[int] = set()
    for step in steps:
        read = [sources.get(id(v), v) for v in step.inputs() if isinstance(v, Value)]
        level = max((levels.get(id(v), 0) for v in read), default=0)
        contracts = _contracts(step)
        outlives.update(id(v) for v in read if levels.get(id(v), 0) < level)
        if contracts:
            written.update(id(v) for v in read)
        for output in step.outputs:
            if not isinstance(output, Value):
                continue
            levels[id(output)] = level + contracts
            if is_view(step.target) and read:
                sources[id(output)] = read[0]
            elif contracts:
                written.add(id(output))
    streams = {
        id(output)
        for step in steps for output in step.outputs
        if id(output) in outlives and any(_feeds(sources.get(id(v), v), output, levels, outlives) for v in step.inputs())
    }  # fmt: skip
    return Residence(frozenset(written | outlives), frozenset(streams))


def _feeds(value: Any, output: Any, levels: dict[int, int], outlives: set[int]) -> bool:
    """Whether an operand is itself carried past the contraction that the output comes from."""
    made = isinstance(value, Value) and value.step is not None
    return made and id(value) in outlives and levels.get(id(value), 0) < levels[id(output)]


def _contracts(step: Step) -> bool:
    return getattr(step.target, "overloadpacket", None) in flop_registry
