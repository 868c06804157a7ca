"""What loads give where they read nothing: where their guard does not hold, and past the end of a row.

    x_1 = load x[i - 1] where 0 <= i - 1
    where_3 = where(0 <= i - 1, cast(x_1), -inf)        ->      tl.load(x + i - 1, mask=..., other=float("-inf")), and no `where`

A window's padding, and what of a concatenation is another part's, are chosen so: as part of the load that costs nothing. Neither does the
identity of a maximum in the columns past a row's end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.nodes import Body, Compute, Constant, Load, Operation, Reduce


@dataclass(frozen=True)
class Otherwise:
    """By their numbers in a body: the constants that loads give, and the values that choices between such a load and its constant are."""

    constants: Mapping[int, Constant]
    chosen: Mapping[int, int]


def otherwise(body: Body, stored: Mapping[str, torch.dtype], is_any_length: bool) -> Otherwise:
    """`stored` are the buffers' dtypes: a constant must be one of their numbers. Of rows whose length is known a compiler leaves out what
    is computed past the end, where a choice says that it is in vain: there loads give no identity."""
    uses = Counter(argument for operation in body for argument in operation.arguments)
    constants: dict[int, Constant] = {}
    chosen: dict[int, int] = {}
    for number, operation in enumerate(body):
        if not isinstance(operation, Compute) or operation.name != "where":
            continue
        guard, value, other = operation.arguments
        constant, chain = body[other], _from_load(body, value, uses)
        if not chain or not isinstance(constant, Constant) or body[chain[0]].guard != guard:
            continue
        if _is_exact(constant, [stored[body[chain[0]].buffer], *(body[each].dtype for each in chain)]):
            constants[chain[0]], chosen[number] = constant, value
    return Otherwise(constants | dict(_extremes(body, stored) if is_any_length else ()), chosen)


def outside(body: Body, number: int, constants: Mapping[int, Constant], columns: Callable[[int], bool]) -> float | None:
    """What a value is in the columns past a row's end, where that is known: in them a load that varies along `columns` gives its constant.

    Of `exp(x - x.max())` that is 0, and NaN where the maximum is no number or negative infinity: then elements of the row are NaN too.
    """
    operation = body[number]
    if isinstance(operation, Load) and columns(number):
        return float(constants[number].value) if number in constants else 0.0
    if not isinstance(operation, Compute) or not operation.arguments:
        return None
    first = outside(body, operation.arguments[0], constants, columns)
    if operation.name == "cast":
        return first if first == 0.0 or operation.dtype.is_floating_point else None
    if operation.name == "subtract" and first == -math.inf and _is_maximum(body, *operation.arguments):
        return first
    return 0.0 if operation.name == "exp" and first == -math.inf else None


def _is_maximum(body: Body, number: int, top: int) -> bool:
    operation = body[top]
    return isinstance(operation, Reduce) and operation.kind == "max" and operation.arguments == (number,)


def _extremes(body: Body, stored: Mapping[str, torch.dtype]) -> Iterator[tuple[int, Constant]]:
    """Loads of which nothing but an extremum is taken: the identity of that. Of a sum of them it would be 0."""
    reduced: dict[int, set[float]] = {}
    for operation in body:
        if not isinstance(operation, Reduce):
            continue
        (source,) = operation.arguments
        while isinstance(body[source], Compute) and body[source].name == "cast":
            (source,) = body[source].arguments
        load = body[source]
        if isinstance(load, Load) and load.guard is None:
            reduced.setdefault(source, set()).add(_IDENTITIES.get(operation.kind, 0.0))
    for source, identities in reduced.items():
        load = body[source]
        constant = Constant(load.dtype, (), load.origin, identities.pop())
        if not identities and constant.value and load.dtype.is_floating_point and _is_exact(constant, [stored[load.buffer], load.dtype]):
            yield source, constant


_IDENTITIES = {"max": -math.inf, "argmax": -math.inf, "min": math.inf, "argmin": math.inf}


def _from_load(body: Body, number: int, uses: Counter[int]) -> list[int]:
    """The load that a value is but for casts, and the casts; nothing else reads any of them."""
    chain = [number]
    while uses[chain[0]] == 1:
        operation: Operation = body[chain[0]]
        if isinstance(operation, Load):
            return chain
        if not isinstance(operation, Compute) or operation.name != "cast":
            return []
        chain.insert(0, operation.arguments[0])
    return []


def _is_exact(constant: Constant, dtypes: list[torch.dtype]) -> bool:
    """Whether a constant is what becomes of it where it is stored first and then cast."""
    given = torch.tensor(constant.value, dtype=dtypes[-1])
    found = given
    for dtype in dtypes:
        found = found.to(dtype)
    return bool(found.equal(given))
