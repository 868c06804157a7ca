"""`max` and `min` of tensors: one of their arguments, which only the run of the graph knows.

    m = max(x.mean(), 0.0)       `x.mean()` or 0.0, whichever it is when the graph has run
    y = x * m                    where(0.0 > x.mean(), x * 0.0, x * x.mean())

Python gives one of the very objects: another type, another history, memory of another tensor. So it is not a tensor that is computed from
both (`EitherValue`). What is returned, kept or lives across a break is chosen when the graph has run. Arithmetic is done to both, and where
nothing tells the two results apart but their contents, that is one tensor again. Other operators get such a tensor for their operand,
where they neither give it back nor write to it. What requires gradients stays two: `where` leads a gradient to both, zeros and NaN too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.known_tensors import known_number
from dynascope.capture.calls.late_numbers import are_served as are_late_numbers_served
from dynascope.capture.calls.operands import tensors_in
from dynascope.capture.calls.refusals import is_repeatable
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.protocols import operators
from dynascope.capture.protocols.truth import truth
from dynascope.capture.reasons import DataDependentBranch
from dynascope.capture.values import (
    ConstantValue,
    EitherValue,
    ListValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
    items_once,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MOST = 8
"""Of so many values one may be taken: what is done to it is done to each."""


def extreme(machine: Machine, symbol: str, given: Sequence[Value]) -> Value:
    """What `max(*given)` or `min(*given)` is, by comparing each with the best one so far as Python does."""
    best, compared = given[0], given[0]
    for item in given[1:]:
        asked = item if isinstance(item, EitherValue) else machine.realize(item)
        answer = applied(machine, lambda left, right: operators.compare(machine, symbol, left, right), asked, compared)
        condition = condition_of(machine, answer)
        if condition is not None:
            best = EitherValue(condition, item, best, DataDependentBranch(machine.expression(), machine.place()))
            compared = alike(machine, condition, detached(machine, asked), detached(machine, compared)) or best
        elif truth(machine, answer):
            best, compared = item, asked
    return best


def condition_of(machine: Machine, answer: Value) -> TensorValue | None:
    """The truth of a comparison as a tensor of no dimensions; None where it is known, or cannot be a part of the graph."""
    if isinstance(answer, EitherValue):
        sides = [truth_of(machine, side) for side in (answer.first, answer.second)]
        return None if None in sides else apply_function(machine, torch.where, [answer.condition, *sides], {})
    is_one = isinstance(answer, TensorValue) and answer.example.numel() == 1 and answer.instance is None
    if not is_one or known_number(machine, answer) is not None or not are_late_numbers_served(machine):
        return None
    return answer if answer.example.dim() == 0 else apply_method(machine, torch.Tensor.reshape, [answer, TupleValue(())], {})


def truth_of(machine: Machine, answer: Value) -> Value | None:
    is_known = isinstance(answer, ConstantValue) and type(answer.value) is bool
    return answer if is_known else condition_of(machine, answer)


def detached(machine: Machine, value: Value) -> Value:
    """For what leads no gradient."""
    if isinstance(value, EitherValue):
        return EitherValue(value.condition, detached(machine, value.first), detached(machine, value.second), value.asked)
    is_led = isinstance(value, TensorValue) and value.example.requires_grad
    return apply_method(machine, torch.Tensor.detach, [value], {}) if is_led else value


def are_among(values: Iterable[Value]) -> bool:
    return any(isinstance(value, EitherValue) or are_in_row(value) for value in values)


def are_in_row(value: Value) -> bool:
    """A row from outside holds none, and is not looked into."""
    is_made = isinstance(value, (ListValue, TupleValue)) and value.source is None
    return is_made and any(isinstance(item, EitherValue) for item in items_once(value))


# What is done to both


def applied(machine: Machine, function: Callable[..., Any], *values: Value) -> Value:
    """An operator of Python's on values of which one may be either of two. It is done to each, so the others are tensors and numbers."""
    either = next((value for value in values if isinstance(value, EitherValue)), None)
    if either is None:
        return machine.finish(function(*map(machine.realize, values)))
    others = [machine.realize(value) for value in values if not isinstance(value, EitherValue)]
    if sum(map(leaves, values)) - len(others) > MOST or machine.overriding.asks_modes or not all(map(is_plain, others)):
        either.realize()
    first, second = (
        applied(machine, function, *(part if value is either else value for value in values)) for part in (either.first, either.second)
    )
    return joined(machine, either, first, second)


def binary(machine: Machine, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right`. What writes to a tensor does so once."""
    left = left if isinstance(left, EitherValue) else machine.realize(left)
    if symbol.endswith("=") and isinstance(left, (EitherValue, TensorValue)):
        is_apart = memory_of((left,)).isdisjoint(memory_of((right,)))
        right = (in_one(machine, right) if is_apart else None) or machine.realize(right)
        return machine.finish(operators.binary(machine, symbol, machine.realize(left), right))
    return applied(machine, lambda one, other: operators.binary(machine, symbol, one, other), left, right)


def joined(machine: Machine, either: EitherValue, first: Value, second: Value) -> Value:
    if isinstance(first, ConstantValue) and isinstance(second, ConstantValue) and first.value is second.value:
        return first
    is_new = memory_of((first, second)).isdisjoint(memory_of((either,)))  # `+x` is x
    made = alike(machine, either.condition, first, second) if is_new else None
    return made or EitherValue(either.condition, first, second, either.asked)


def memory_of(values: Iterable[Value]) -> set[int]:
    found: set[int] = set()
    for value in values:
        if isinstance(value, EitherValue):
            found |= memory_of((value.first, value.second))
        elif isinstance(value, TensorValue):
            found.add(value.example.untyped_storage()._cdata)
    return found


def leaves(value: Value) -> int:
    return leaves(value.first) + leaves(value.second) if isinstance(value, EitherValue) else 1


def is_plain(value: Value) -> bool:
    if isinstance(value, TensorValue):
        return value.instance is None
    return isinstance(value, SymbolicNumber) or (isinstance(value, ConstantValue) and type(value.value) in (bool, int, float))


def alike(machine: Machine, condition: TensorValue, first: Value, second: Value) -> TensorValue | None:
    """A tensor with the contents of either, where nothing but its contents tells which it is; else None."""
    first, second = (in_one(machine, each) for each in (first, second))
    if first is None or second is None or condition.device != first.device or kind_of(first) != kind_of(second):
        return None
    if any(each.instance is not None or each.example.requires_grad or each.example.is_complex() for each in (first, second)):
        return None
    made = apply_function(machine, torch.where, [condition, first, second], {})
    return made if isinstance(made, TensorValue) and kind_of(made) == kind_of(first) else None


def in_one(machine: Machine, value: Value) -> TensorValue | None:
    if isinstance(value, EitherValue):
        return alike(machine, value.condition, value.first, value.second)
    return value if isinstance(value, TensorValue) else None


def kind_of(tensor: TensorValue) -> tuple:
    strides = [stride for stride, size in zip(tensor.example.stride(), tensor.example.shape, strict=True) if size > 1]
    return tuple(tensor.example.shape), strides, tensor.example.dtype, tensor.device


# Calls


def called(machine: Machine, function: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """A function of torch's. It gets a tensor for what may be either of two, where its result is made anew, or is called with each."""
    given = (*arguments, *keywords.values())
    eithers = [value for value in flat(given) if isinstance(value, EitherValue)]
    takes_number = getattr(constant_of(function), "__name__", "") in ("item", "tolist")
    stand_ins = {each: in_one(machine, detached(machine, each) if takes_number else each) for each in eithers}
    if any(each is None for each in stand_ins.values()):
        return called_with_each(machine, function, eithers, arguments, keywords)
    versions, doings = [each.example._version for each in stand_ins.values()], machine.doings()[1:]
    result = machine.call_now(function, *exchanged(stand_ins, arguments, keywords))
    if not memory_of(stand_ins.values()).isdisjoint(memory_of(tensors_in([result]))):
        return called_with_each(machine, function, eithers, arguments, keywords)
    if doings != machine.doings()[1:] or versions != [each.example._version for each in stand_ins.values()]:
        eithers[0].realize()
    return result


def called_with_each(
    machine: Machine, function: Value, eithers: Sequence[EitherValue], arguments: Arguments, keywords: Keywords
) -> Value:
    """It changes nothing and draws nothing, so nothing tells that it was called with the other one too."""
    either, results = eithers[0], []
    if sum(map(leaves, dict.fromkeys(eithers))) > MOST:
        either.realize()
    doings, known = machine.doings()[1:], len(machine.graph.graph.nodes)
    for part in (either.first, either.second):
        results.append(machine.call_now(function, *exchanged({either: part}, arguments, keywords)))
    made = list(machine.graph.graph.nodes)[known:]
    is_plain_result = all(isinstance(each, (TensorValue, EitherValue, SymbolicNumber, ConstantValue)) for each in results)
    targets = [getattr(torch.Tensor, node.target, None) if isinstance(node.target, str) else node.target for node in made]
    may_be_made = machine.graph.kept.isdisjoint(made) and all(map(is_repeatable, targets))
    if not is_plain_result or not may_be_made or doings != machine.doings()[1:]:
        either.realize()
    return joined(machine, either, *results)


def exchanged(parts: dict[EitherValue, Value], arguments: Arguments, keywords: Keywords) -> tuple[Arguments, Keywords]:
    def one(value: Value) -> Value:
        if isinstance(value, EitherValue):
            return parts.get(value, value)
        if are_in_row(value):
            items = [one(item) for item in value.items]
            return ListValue(items) if isinstance(value, ListValue) else TupleValue(tuple(items), value.cls)
        return value

    return [one(value) for value in arguments], {name: one(value) for name, value in keywords.items()}


def flat(values: Iterable[Value]) -> Iterable[Value]:
    for value in values:
        yield from value.items if are_in_row(value) else (value,)
