"""What a recording gives at each replay. Its results lie in memory that the next replay writes again:

    results = RecordedResults(made, arguments, lent)
    results.watch()           from here on the recording alone holds what it lends
    results.give(inputs)      copied: a copy, made before anybody sees it
                              lent:   the memory itself, and nothing is replayed until nobody holds it any more
                              an input, or a view of one: of the input of this call
    results.are_free()        whether anybody holds what was lent

Who holds lent memory is asked of the memory: tensors, views of them, what autograd saves and other libraries hold all count. What is not
counted is another stream that still reads what nobody holds, and another process to which it was sent.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Container, Sequence
from typing import Any

import torch
from torch._C import _storage_Use_Count
from torch._C._dynamo.guards import _reinterpret_tensor


class Unrecordable(Exception):
    """What a graph gives cannot be told apart from the recording's own memory."""


class RecordedResults:
    """`made` is what recording gave, of `arguments`; `lent` are the positions of results that are not copied."""

    def __init__(self, made: Sequence[Any], arguments: Sequence[Any], lent: Container[int]) -> None:
        self._lent: list[torch.Tensor | None] = [None] * len(made)
        self._copied: list[tuple[int, torch.Tensor]] = []
        self._of_inputs: list[tuple[int, int, Any]] = []
        """(result, input, how a view of it lies; None for the input itself)"""
        self._others: list[tuple[int, Any]] = []
        inputs = [(at, value) for at, value in enumerate(arguments) if isinstance(value, torch.Tensor)]
        objects = {id(value): at for at, value in reversed(inputs)}
        memory = {_memory(value): at for at, value in reversed(inputs)}
        for n, result in enumerate(made):
            if not isinstance(result, torch.Tensor):
                self._others.append((n, result))
            elif id(result) in objects:
                self._of_inputs.append((n, objects[id(result)], None))
            elif _memory(result) in memory:
                at = memory[_memory(result)]
                self._of_inputs.append((n, at, _view(result, arguments[at])))
            elif n in lent:
                self._lent[n] = result.data  # holds nothing that this is a view of
            elif torch._debug_has_internal_overlap(result):
                raise Unrecordable("elements of a result overlap")
            else:
                self._copied.append((n, result))
        copies = [_memory(result) for _, result in self._copied]
        if len(set(copies)) < len(copies) or not {_memory(value) for value in self._lent if value is not None}.isdisjoint(copies):
            raise Unrecordable("results share memory with one another")
        tensors = [value for value in self._lent if value is not None]
        self._storages = list({_memory(value): value.untyped_storage() for value in tensors}.values())
        self._addresses = [storage._cdata for storage in self._storages]
        counts = collections.Counter(map(_memory, tensors))
        self._holders = [counts[address] + NOBODYS for address in self._addresses]
        self._references = list(map(sys.getrefcount, self._storages))
        """Python's to the memory itself, which holds it once, whoever refers to that."""

    def watch(self) -> None:
        """Raises where memory to lend is somebody else's: it could be let go of there while it is held here."""
        if not self.are_free():
            raise Unrecordable("a result lies in memory that is not the recording's own")

    def are_free(self) -> bool:
        if list(map(_storage_Use_Count, self._addresses)) != self._holders:
            return False
        return list(map(sys.getrefcount, self._storages)) == self._references

    def lent_at(self, n: int) -> torch.Tensor | None:
        return self._lent[n]

    def lent_addresses(self) -> set[int]:
        return {value.data_ptr() for value in self._lent if value is not None}

    def give(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        # By `.data`: a new result counts as never written, whatever was done to the last one.
        given: list[Any] = [None if value is None else value.data for value in self._lent]
        for n, value in self._others:
            given[n] = value
        for n, at, view in self._of_inputs:
            given[n] = inputs[at] if view is None else _reinterpret_tensor(inputs[at], *view)
        for n, value in self._copied:
            given[n] = _copy(value)
        return tuple(given)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _view(result: torch.Tensor, argument: torch.Tensor) -> tuple[Any, Any, Any]:
    if result.dtype != argument.dtype:
        raise Unrecordable("a result is an input, read as another type")
    return tuple(result.shape), result.stride(), result.storage_offset() - argument.storage_offset()


def _copy(result: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device)
    made.data.copy_(result)  # a new result counts as never written
    return made


def _held_by_nobody() -> int:
    """How much more often than by its tensors memory says to be held."""
    tensor = torch.empty(1)
    storage = tensor.untyped_storage()
    return _storage_Use_Count(storage._cdata) - 1


NOBODYS = _held_by_nobody()
