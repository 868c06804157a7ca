"""Sizes and strides of tensors from outside that vary: roots of the capture, and what follows from them.

    x: f32[7, 64], its first size varies     sizes (s0, 64), strides (64, 1), s0 = x.size(0), and 2 or more
    x: f32[7, 64], its second size varies    sizes (7, s0), strides (s0, 1): a guard that `x.stride(0) == x.size(1)`

Sizes that are equal now are one root, until a call comes in which they differ. Two that the program does not run with others of, each
by itself (a mask is one longer than the cache), are one root and a difference. 0 and 1 are cases of their own: torch
broadcasts and lays out such tensors in another way. A stride that no sizes give stays what it is, or varies by itself.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.marks import marks_of
from dynascope.capture.sizes import LEAST
from dynascope.dataclass import dataclass
from dynascope.guards.source import ExtentSource, ModuleMemberSource, Source
from dynascope.sizes import hint_of, is_size, roots_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@dataclass(frozen=True, slots=True)
class TensorExtents:
    """Of one tensor: ints, and sizes where they vary."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]

    @property
    def expected_sizes(self) -> tuple[Any, ...]:
        """For the guard of the tensor alone."""
        return tuple(str(size) if is_size(size) else size for size in self.sizes)

    @property
    def expected_strides(self) -> tuple[Any, ...]:
        """From 2 on too, where they vary: what is repeated (a stride of 0) is laid out in another way."""
        return tuple(str(stride) if is_size(stride) else stride for stride in self.strides)


def extents_of(machine: Machine, tensor: torch.Tensor, source: Source) -> TensorExtents | None:
    """Makes the roots, and says what they rely on. None where nothing varies."""
    if machine.options.dynamic is False:
        return None
    machine.sizes.seen.update((ExtentSource(source, "size", d), size) for d, size in enumerate(tensor.shape))
    varying = [d for d, size in enumerate(tensor.shape) if size >= LEAST and _varies(machine, tensor, source, d)]
    steps = {
        d
        for d, stride in enumerate(tensor.stride())
        if stride >= LEAST and ExtentSource(source, "stride", d) in machine.options.symbolic - machine.options.fixed
    }
    if not varying and not steps:
        return None
    sizes: list[Any] = list(tensor.shape)
    marks = marks_of(tensor)
    machine.sizes.begun[source] = tuple(tensor.shape)
    try:
        for d in varying:
            place = ExtentSource(source, "size", d)
            sizes[d] = machine.sizes.size_of_tensor(sizes[d], place, machine.options)
            if d in marks.dynamic or place in machine.options.symbolic:
                machine.sizes.scope.assumed.difference_update(root.name for root in roots_of([sizes[d]]))
            low, high = marks.bounds.get(d, (None, None))
            _ = low is None or sizes[d] >= low
            _ = high is None or sizes[d] <= high
    finally:  # a break inside may be taken back, and the capture go on
        del machine.sizes.begun[source]
    times = machine.sizes.scope.times
    for name, count in Counter(str(sizes[d]) for d in varying).items():
        times[name] = max(times.get(name, 0), count)
    return TensorExtents(tuple(sizes), _strides(machine, tensor, source, sizes, steps))


def _varies(machine: Machine, tensor: torch.Tensor, source: Source, dimension: int) -> bool:
    options, place = machine.options, ExtentSource(source, "size", dimension)
    marks = marks_of(tensor)
    if place in options.fixed or dimension in marks.static:
        return False
    if place in options.symbolic or dimension in marks.dynamic:
        return True
    belongs = isinstance(tensor, torch.nn.Parameter) or isinstance(source, ModuleMemberSource)
    return options.dynamic is True and not belongs


def _strides(machine: Machine, tensor: torch.Tensor, source: Source, sizes: list[Any], steps: set[int]) -> tuple:
    """Each is what lies within it, as in a dense tensor, where that fits now; else a number, or a root."""
    hints, found = tensor.stride(), list(tensor.stride())
    within: Any = 1
    for d in sorted(range(len(sizes)), key=lambda d: (hints[d], tensor.shape[d] != 1)):
        place = ExtentSource(source, "stride", d)
        if hints[d] == hint_of(within):
            if is_size(within):
                machine.sizes.follows(place, within)
            found[d] = within
        elif d in steps:
            found[d] = machine.sizes.root_at(hints[d], place)
        within = found[d] * sizes[d]
    return tuple(found)
