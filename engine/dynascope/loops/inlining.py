"""Substituting bodies into bodies: a load of a value that is computed here becomes the computation.

    writer = BodyWriter(builder, resolve)
    writer.write(node.body, {i0: r0, c1: c0}, wanted=(5,))     ->  {5: number of value 5 in the builder}

`resolve(load, index, guard)` says what a load becomes: a value number, or None to stay a load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import torch

from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import Atom, Index, Loaded, Substitution, Symbol, delinearize, renumbered, variable
from dynascope.loops.limits import Limits, inside
from dynascope.loops.nodes import (
    Body,
    CheckIndex,
    Compute,
    Constant,
    Load,
    LoopNode,
    Operation,
    Reduce,
    Result,
    Scan,
    Store,
)
from dynascope.sizes import is_constant

Resolve = Callable[[Load, Index, "int | None"], "int | None"]


class BodyWriter:
    """Writes parts of other bodies into one builder; equal values meet."""

    def __init__(self, builder: BodyBuilder, resolve: Resolve) -> None:
        self.builder = builder
        self.resolve = resolve

    def write(
        self,
        body: Body,
        symbols: Mapping[Symbol, Index],
        wanted: Iterable[int],
        guard: int | None = None,
        known: tuple[Index, Index] | None = None,
    ) -> dict[int, int]:
        """The wanted values of `body`, with loop variables replaced, in the builder, and its checks; loads guarded by `guard` too. `known`:
        what one index of the body is then, simpler than by its loops one by one, where each of these is a quotient or a remainder."""
        numbers: dict[int, int] = {}

        def replace_atom(atom: Atom) -> Index | None:
            if isinstance(atom, Loaded):
                return variable(Loaded(numbers[atom.value], atom.extent))
            return symbols.get(atom)

        substitution = Substitution(replace_atom)

        def index(old: Index) -> Index:
            # As indices: of unequal terms nothing is compared, where sizes would answer by their hints.
            if known is not None and old.terms and Index(old.terms, known[0].constant) == known[0]:
                return known[1] + (old.constant - known[0].constant)
            return substitution(old)

        for value in needed(body, (*wanted, *checks(body))):
            numbers[value] = self._write_one(body[value], numbers, index, guard)
        return numbers

    def _write_one(
        self, operation: Operation, numbers: dict[int, int], index: Callable[[Index], Index], guard: int | None
    ) -> int:
        if isinstance(operation, Load):
            own = None if operation.guard is None else numbers[operation.guard]
            both = self._both(own, guard, operation)
            flat = index(operation.index)
            number = self.resolve(operation, flat, both)
            if number is not None:
                return number
            loaded = tuple(sorted(flat.loaded))
            arguments = loaded if both is None else (both, *loaded)
            return self.builder.append(replace(operation, arguments=arguments, index=flat, guard=both))
        new = instantiate(operation, numbers.__getitem__, index)
        if isinstance(new, CheckIndex) and guard is not None:
            new = replace(new, arguments=(self._zero_outside(new, guard),))
        return self.builder.append(new)

    def _both(self, left: int | None, right: int | None, operation: Operation) -> int | None:
        if left is None or right is None or left == right:
            return left if right is None else right
        return self.builder.append(Compute(torch.bool, (left, right), operation.origin, "and"))

    def _zero_outside(self, check: CheckIndex, guard: int) -> int:
        """The index where the guard holds, else 0: an index that nobody uses is not an error."""
        zero = self.builder.append(Constant(torch.int64, (), check.origin, 0))
        return self.builder.append(Compute(torch.int64, (guard, check.arguments[0], zero), check.origin, "where"))


def needed(body: Body, wanted: Iterable[int]) -> list[int]:
    """The wanted values and all that they depend on, in order."""
    found, open_values = set(), list(wanted)
    while open_values:
        value = open_values.pop()
        if value not in found:
            found.add(value)
            open_values.extend(body[value].arguments)
    return sorted(found)


def checks(body: Body) -> list[int]:
    """The indices that are checked. Eager raises for one that is out of range, also where what is read there is the same everywhere."""
    return [n for n, operation in enumerate(body) if isinstance(operation, CheckIndex)]


def without_unused(body: Body) -> Body:
    """The body with only what its stores and checks need."""
    kept = needed(body, [*checks(body), *(n for n, operation in enumerate(body) if isinstance(operation, Store))])
    if len(kept) == len(body):
        return body
    numbers = {old: new for new, old in enumerate(kept)}
    return tuple(instantiate(body[n], numbers.__getitem__, lambda i: renumbered(i, numbers.__getitem__)) for n in kept)


def symbols_at(node: LoopNode, result: Result, flat: Index, limits: Limits) -> dict[Symbol, Index]:
    """The node's loop variables for the element of its result at a flat position, where the limits hold."""
    loops = [
        k for k, loop in enumerate(node.loops) if not is_constant(result.strides[k], 0) or is_constant(loop.size, 1)
    ]
    sizes = [node.loops[k].size for k in loops]
    strides = [result.strides[k] for k in loops]
    indices = inside(flat, limits, lambda flat: delinearize(flat, sizes, strides))
    return {node.loops[k].symbol: i for k, i in zip(loops, indices, strict=True)}


def has_reduction(body: Body) -> bool:
    """Whether a value takes other elements than its own to compute."""
    return any(isinstance(operation, (Reduce, Scan)) for operation in body)
