"""The gradients that autograd found: their values, and whose memory each lies in.

    a + b                             both gradients are the tangent itself     memory None, None     same_as {1: 0}
    linear(x, b1) + linear(h, b2)     the biases' gradients are equal sums      memory 17, 18

Equal steps are one step, so that two gradients may be one value where eager computes it twice. A program sees the
difference: clipping, unscaling and accumulation write to `.grad` in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.grad.record import Recorder
from dynascope.grad.tape import Value


@dataclass(frozen=True, slots=True)
class Gradients:
    """For each input: its gradient's `value` or None, and the storage that eager's lies in (None: one that existed before).

    `same_as` has the inputs that eager gives the very same tensor as an earlier one, `filling` those whose gradient is all that lies in
    its storage. `viewed` are those of which others are views: autograd had handed such a tensor on when a leaf got it, which takes a copy
    then (`until_the_pass_ends`).
    """

    values: list[Value | None]
    memory: tuple[int | None, ...]
    same_as: dict[int, int]
    filling: frozenset[int]
    viewed: frozenset[int] = frozenset()

    @staticmethod
    def none(count: int) -> Gradients:
        return Gradients([None] * count, (None,) * count, {}, frozenset())


def describe_gradients(
    recorder: Recorder, inputs: list[Any], handles: Mapping[int, torch.Tensor | None], earlier: frozenset[int]
) -> Gradients:
    """`handles` are what autograd gave for some of the inputs; `earlier` the storages of before the backward pass."""
    values: list[Value | None] = [None] * len(inputs)
    memory: list[int | None] = [None] * len(inputs)
    first: dict[int, int] = {}
    same_as = {}
    filling = set()
    for index, handle in handles.items():
        if handle is None:
            continue
        value = recorder.value(handle)
        storage = handle.untyped_storage()._cdata
        if value.device != inputs[index].device:
            value = recorder.builder.op(torch.ops.aten._to_copy.default, value, device=inputs[index].device)
        elif first.setdefault(id(handle), index) != index:
            same_as[index] = first[id(handle)]
        values[index] = value
        memory[index] = None if storage in earlier else storage
        if handle.untyped_storage().nbytes() == handle.numel() * handle.itemsize:
            filling.add(index)
    return Gradients(values, tuple(memory), same_as, frozenset(filling), _viewed(recorder, handles))


def _viewed(recorder: Recorder, handles: Mapping[int, torch.Tensor | None]) -> frozenset[int]:
    numbers = {id(handle): index for index, handle in handles.items() if handle is not None}
    found = set()
    for handle in handles.values():
        while id(handle) in recorder.viewed:
            _, handle = recorder.viewed[id(handle)]
            found |= {numbers[id(handle)]} if id(handle) in numbers else set()
    return frozenset(found)


def until_the_pass_ends(gradients: tuple[torch.Tensor | None, ...], viewed: tuple[int, ...]) -> tuple[torch.Tensor | None, ...]:
    """The gradients, of which some are held until then: a leaf takes a tensor that nobody else has as it is, and of others a copy."""
    with suppress(RuntimeError):  # outside of a pass, where the node is called by itself, no leaf takes anything
        torch.autograd.Variable._execution_engine.queue_callback(partial(len, [gradients[index] for index in viewed]))
    return gradients
