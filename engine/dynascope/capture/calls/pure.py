"""Computing for real what is known: functions without effects over constants.

compute(machine, operator.add, (1, 2))   ->  ConstantValue(3), or the program's exception
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture import numpy_numbers
from dynascope.capture.reasons import ForeignCall, ProgramRaises
from dynascope.capture.set_orders import SetRecipe
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    FALSE,
    NONE,
    TRUE,
    ConstantValue,
    DictValue,
    IteratorValue,
    ListValue,
    NotConstant,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.meta_kernels.torch_warnings import noted

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MAXIMUM_SIZE = 10_000_000


def compute(
    machine: Machine, function: Callable[..., Any], arguments: tuple, keywords: dict[str, Any] | None = None
) -> Any:
    """The result as a constant. What the function raises, the program raises; what NumPy warns of it says when Python makes the call."""
    try:
        if any(type(argument) in numpy_numbers.TYPES or numpy_numbers.is_dtype(argument) for argument in arguments):
            result = _without_warning(machine, function, arguments, keywords or {})
        else:
            result = function(*arguments, **(keywords or {}))
    except Break:
        raise
    except Exception as error:
        raise machine.throw(type(error), *error.args) from None
    if result is True:
        return TRUE
    if result is False:
        return FALSE
    return NONE if result is None else ConstantValue(result)


def _without_warning(machine: Machine, function: Callable[..., Any], arguments: tuple, keywords: dict[str, Any]) -> Any:
    with noted() as given:
        result = function(*arguments, **keywords)
    if given:
        raise Break(ForeignCall(getattr(function, "__name__", "the call"), str(given[0].message)))
    return result


def fails_like(machine: Machine, function: Callable[..., Any], *values: Value) -> Raised | Break:
    """What Python's own function raises for these values, in its words; it is known to raise."""
    known = [constant_of(machine.known(value)) for value in values]
    if not any(type(each) is NotConstant for each in known):
        try:
            function(*known)
        except Exception as error:
            return machine.throw(type(error), *error.args)
    return Break(ProgramRaises("an error", machine.expression()))


def value_of(thing: Any) -> Value:
    """A fresh object as a value: containers open, everything else constant."""
    kind = type(thing)
    if kind is list:
        return ListValue([value_of(item) for item in thing])
    if kind is tuple or kind is torch.Size or (isinstance(thing, tuple) and hasattr(kind, "_fields")):
        return TupleValue(tuple(value_of(item) for item in thing), kind)
    if kind is dict:
        return DictValue({key: (value_of(key), value_of(item)) for key, item in thing.items()})
    if kind in (set, frozenset):
        same = SetRecipe(frozenset, (thing,)) if kind is frozenset else None
        return SetValue({item: value_of(item) for item in thing}, kind, recipe=same)
    if hasattr(kind, "__next__"):
        return IteratorValue([value_of(item) for item in thing], cls=kind)
    if kind is slice:
        return SliceValue((value_of(thing.start), value_of(thing.stop), value_of(thing.step)))
    return ConstantValue(thing)
