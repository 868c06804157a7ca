"""Calls of functions without effects with numbers that vary among what they are told: numbers that vary themselves.

    np.clip(lr, 1e-4, 1e-2)      statistics.mean([loss, 0.5])      math.frexp(n)[0]

The call becomes an operation of a `Size` (`sizes.calls`): it is made anew at each call of the program, before the graph or in it,
with the numbers of that call. Which functions may be called so is for who asks to know.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture import numpy_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    ConditionValue,
    ConstantValue,
    InstanceValue,
    ListValue,
    SymbolicNumber,
    TupleValue,
    Value,
)
from dynascope.meta_kernels.torch_warnings import noted
from dynascope.sizes import Size, is_found
from dynascope.sizes.calls import HOLE

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MOST_NUMBERS = 64
SETTINGS = (bool, type(None), type, str, *numpy_numbers.DTYPE_CLASSES)
"""What else a call may be told, of constants."""


class _NoNumbers(Exception):
    pass


def number_call(
    machine: Machine, function: Callable[..., Any], arguments: Arguments, keywords: Keywords, length_is_known: bool = False
) -> Value | None:
    """What it gives; None where no number varies, where it is told something else than numbers and rows of numbers, or where it raises or
    warns for the numbers at hand. `function` has no effects."""
    numbers: list[Any] = []
    try:
        template = (
            tuple(_template(machine, each, numbers) for each in arguments),
            {name: _template(machine, each, numbers) for name, each in keywords.items()},
        )
    except _NoNumbers:
        return None
    varying = next((number for number in numbers if isinstance(number, Size)), None)
    if varying is None or len(numbers) > MOST_NUMBERS or not (is_found(function) or is_made_of_code(function)):
        return None
    count = len(varying.scope.log)
    try:
        with noted() as given:
            result = varying.call(function, template, numbers, length_is_known)
    except (Exception, Break):
        varying.scope.log.take_back(count)
        return None
    if given:
        varying.scope.log.take_back(count)
        return None
    return _value(machine, result)


def _template(machine: Machine, value: Value, numbers: list[Any]) -> Any:
    value = machine.realize(value)
    if isinstance(value, SymbolicNumber) and not isinstance(value, ConditionValue):
        numbers.append(value.size)
        return HOLE
    if (held := deque_contents(machine, value)) is not None:
        return collections.deque(_template(machine, each, numbers) for each in held.items)
    if isinstance(value, ListValue) or (isinstance(value, TupleValue) and value.cls in (tuple, torch.Size)):
        items = [_template(machine, each, numbers) for each in value.items]
        return items if isinstance(value, ListValue) else tuple(items)
    if isinstance(value, ConstantValue):
        if type(value.value) in (int, float):
            numbers.append(value.value)
            return HOLE
        if isinstance(value.value, SETTINGS) or type(value.value) in numpy_numbers.FLOATS:
            return value.value
    raise _NoNumbers


def deque_contents(machine: Machine, value: Value) -> ListValue | None:
    """What a deque holds; None for anything else."""
    if not isinstance(value, InstanceValue) or value.cls is not collections.deque:
        return None
    held = contents_of(machine, value)
    return held if isinstance(held, ListValue) else None


def _value(machine: Machine, result: Any) -> Value:
    if isinstance(result, list):
        return ListValue([_value(machine, each) for each in result])
    if isinstance(result, tuple):
        return TupleValue(tuple(_value(machine, each) for each in result))
    return machine.sizes.value(result)


def is_made_of_code(function: Any) -> bool:
    return isinstance(function, types.FunctionType)
