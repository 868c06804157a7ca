"""Sums of rows in which one element at most is not zero: that element, where the row has it.

sum over c0 of (where c0 == t[i0], v, 0)   ->   where 0 <= t[i0] < extent of c0, v, 0

The gradient of a loss over classes is such a row, and the gradient of softmax takes its sum: a pass over all classes less.
"""

from __future__ import annotations

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import BodyBuilder, Scalar, instantiate
from dynascope.loops.index import Atom, Index, Loaded, Symbol, substitute, variable
from dynascope.loops.nodes import Body, Compute, Constant, IndexValue, Reduce
from dynascope.schedule.passes import Level, arrange
from dynascope.sizes import is_constant


@dataclass(frozen=True, slots=True)
class _OneHot:
    """`value` stands where the loop's position is `place` and all of `conditions` hold; then come `casts`. Numbers of the body."""

    place: int
    conditions: tuple[int, ...]
    value: int
    casts: tuple[torch.dtype, ...]


def with_one_hot_sums(body: Body, columns: tuple[Symbol, ...]) -> Body:
    """The body with each such sum as one value of the row; the same object where there is none."""
    looping = [symbol for symbol in columns if not is_constant(symbol.extent, 1)]
    if len(looping) != 1 or not any(isinstance(operation, Reduce) for operation in body):
        return body
    levels = arrange(body, columns).levels
    found = {n: one for n in range(len(body)) if (one := _one_hot(body, levels, n, looping[0])) is not None}
    return _rewritten(body, found, looping[0]) if found else body


def _one_hot(body: Body, levels: tuple[Level, ...], number: int, symbol: Symbol) -> _OneHot | None:
    match body[number]:
        case Reduce(kind="sum", arguments=(argument,), dtype=dtype) if dtype is body[argument].dtype:
            casts: list[torch.dtype] = []
        case _:
            return None
    while isinstance(operation := body[argument], Compute) and operation.name == "cast":
        casts.insert(0, operation.dtype)
        (argument,) = operation.arguments
    match operation:
        case Compute(name="where", arguments=(condition, value, other)) if levels[value] == "row":
            zero = body[other]
        case _:
            return None
    if not isinstance(zero, Constant) or zero.value != 0:
        return None
    parts = _conjuncts(body, condition)
    places = [place for part in parts if (place := _place(body, levels, part, symbol)) is not None]
    conditions = tuple(part for part in parts if levels[part] == "row")
    if len(places) != 1 or len(conditions) != len(parts) - 1:
        return None
    return _OneHot(places[0], conditions, value, tuple(casts))


def _conjuncts(body: Body, number: int) -> list[int]:
    match body[number]:
        case Compute(name="and", arguments=(left, right)):
            return [*_conjuncts(body, left), *_conjuncts(body, right)]
    return [number]


def _place(body: Body, levels: tuple[Level, ...], number: int, symbol: Symbol) -> int | None:
    """The row's value that the loop's position is compared with."""
    match body[number]:
        case Compute(name="equal", arguments=(left, right)):
            for position, place in ((left, right), (right, left)):
                operation = body[position]
                if isinstance(operation, IndexValue) and operation.index == variable(symbol) and levels[place] == "row":
                    return place
    return None


def _rewritten(body: Body, found: dict[int, _OneHot], symbol: Symbol) -> Body:
    builder, numbers = BodyBuilder(body[0].origin), []

    def renumbered(atom: Atom) -> Index | None:
        return variable(Loaded(numbers[atom.value], atom.extent)) if isinstance(atom, Loaded) else None

    for number, operation in enumerate(body):
        if number in found:
            builder.origin = operation.origin
            numbers.append(_element(builder, body, found[number], symbol, numbers).number)
        else:
            new = instantiate(operation, numbers.__getitem__, lambda index: substitute(index, renumbered))
            numbers.append(builder.append(new))
    return builder.body


def _element(builder: BodyBuilder, body: Body, one: _OneHot, symbol: Symbol, numbers: list[int]) -> Scalar:
    def given(number: int) -> Scalar:
        return Scalar(builder, numbers[number], body[number].dtype)

    place, value = given(one.place), given(one.value)
    condition = builder.compute("greater_equal", place, builder.constant(0, place.dtype))
    condition = builder.compute("and", condition, builder.compute("less", place, builder.number(symbol.extent, place.dtype)))
    for other in one.conditions:
        condition = builder.compute("and", condition, given(other))
    element = builder.compute("where", condition, value, builder.constant(0, value.dtype))
    for dtype in one.casts:
        element = element.cast(dtype)
    if not element.dtype.is_floating_point:
        return element
    return builder.compute("add", element, builder.constant(0.0, element.dtype))  # a sum that begins with 0 is never -0
