"""How sets come to be and change, as recipes that Python can follow to tell their order (`capture.set_orders`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dynascope.capture.reasons import ForeignValue, UntoldOrder
from dynascope.capture.set_orders import SetRecipe, as_dictionary, as_keys_view
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, DictValue, DictViewValue, SetValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def given_as(value: Value, keys: Iterable[Any]) -> Any:
    """What a set of Python's is given in place of `value`, whose items have the `keys`. None where its order is not known."""
    if isinstance(value, SetValue):
        return value.recipe
    if isinstance(value, DictValue) and value.cls is dict and value.instance is None:  # others are read item by item
        return SetRecipe(as_dictionary, (tuple(keys),))
    if isinstance(value, DictViewValue):
        return SetRecipe(as_keys_view, (tuple(keys),))
    if isinstance(value, ConstantValue) and type(value.value) is frozenset:
        return value.value
    return tuple(keys)


def recipe(make: Callable[..., Any], *given: Any) -> SetRecipe | None:
    return None if any(each is None for each in given) else SetRecipe(make, given)


IN_PLACE = (set.add, set.discard, set.clear)
"""What leaves the places of all other items as they are."""


def note_change(machine: Machine, value: SetValue, change: Callable[..., Any], *given: Any) -> None:
    """`change` was made to the set, with what `given_as` made of the arguments."""
    known = not any(each is None for each in given)
    if value.recipe is not None:
        machine.journal.set(value, "recipe", value.recipe.changed(change, *given) if known else None)
    elif value.source is not None:
        if value.is_by_position and (value.done or change not in IN_PLACE):  # an object's place in the table is that of its address
            raise Break(ForeignValue("set", machine.expression()))
        if not known and change is not operator.isub and len(value.items) > 1:
            raise Break(UntoldOrder(machine.expression()))
        if value.done is not None:
            machine.journal.set(value, "done", (*value.done, (change, given)) if known else None)
