"""`iter(x)` and `next(it)` over values, and taking everything an iterable gives.

iterator(machine, value)    a value that `advance` understands
advance(machine, it)        the next value, None at the end
elements(machine, value)    all of them, as a list
"""

from __future__ import annotations

import collections
import itertools
import types
from typing import TYPE_CHECKING

import torch

from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import MISSING, has_python_method, lookup
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.protocols.loop_turns import next_turn
from dynascope.capture.protocols.outside_iterators import is_spoiled
from dynascope.capture.protocols.overriding import check_elements
from dynascope.capture.reasons import ForeignValue, LimitReached, LoopGoesOn, ProgramRaises, UnsupportedAttribute
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    REVERSED_LIST,
    ArrayValue,
    ConstantValue,
    CountValue,
    DictValue,
    DictViewValue,
    GeneratorValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    SetValue,
    TensorValue,
    TupleValue,
    TurnValue,
    Value,
    ZipValue,
)
from dynascope.guards.guard import ItemsComeAs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

# Iterators that a break in a loop leaves behind: Python takes the next item, and the turn is compiled.
BUILTIN_ITERATORS = tuple(
    type(iter(each)) for each in ((), [], {}, {}.values(), {}.items(), set(), range(1), range(1 << 70), "", zip())
) + (zip, enumerate, map, filter, reversed, types.GeneratorType)
CONSTANT_ITERABLES = (str, bytes, range, tuple, frozenset, list)


def iterator(machine: Machine, value: Value) -> Value:
    value = machine.known(value)
    if isinstance(value, ListValue):
        return IteratorValue(value, cls=type(iter([])))
    known = known_elements(machine, value)
    if known is not None:
        return iterator_over(value, known)
    if isinstance(value, (IteratorValue, GeneratorValue, TurnValue, ZipValue, CountValue)):
        return value
    if isinstance(value, TensorValue) and not machine.overriding.asks_modes:
        return IteratorValue(rows(machine, value))
    if isinstance(value, ArrayValue):
        from dynascope.capture.calls import numpy_arrays

        return IteratorValue(numpy_arrays.rows(machine, value))
    return by_method(machine, value)


def iterator_over(value: Value, items: list[Value] | tuple[Value, ...]) -> IteratorValue:
    """The iterator of a container that holds `items`."""
    if isinstance(value, DictViewValue):
        return IteratorValue(items, value, type(iter(getattr(value.dictionary.cls(), value.kind)())))
    if isinstance(value, (DictValue, SetValue)):
        return IteratorValue(items, value, type(iter(value.cls())))
    if isinstance(value, ConstantValue) and isinstance(value.value, CONSTANT_ITERABLES):
        return IteratorValue(items, cls=type(iter(value.value)), iterable=value)
    return IteratorValue(items)


def is_iterable(value: Value) -> bool:
    """Whether `iter` takes it, where that is plain from its class."""
    cls = value.python_type
    return lookup(cls, "__iter__") is not MISSING or lookup(cls, "__getitem__") is not MISSING


def by_method(machine: Machine, value: Value) -> Value:
    check_elements(machine, value)
    cls = value.python_type
    if has_python_method(cls, "__iter__") or issubclass(cls, torch.Tensor) or contents_of(machine, value) is not None:
        made = machine.realize(machine.call_now(special(machine, value, "__iter__"), []))
        if lookup(made.python_type, "__next__") is MISSING:
            raise Break(ProgramRaises("TypeError", machine.expression()))
        return made
    if isinstance(value, InstanceValue) and lookup(cls, "__getitem__") is not MISSING:
        raise Break(UnsupportedAttribute(cls.__name__, "__iter__"))
    if lookup(cls, "__iter__") is MISSING:
        raise machine.throw(TypeError, f"{name_in_errors(cls)!r} object is not iterable")
    raise Break(ForeignValue(cls.__name__, machine.expression()))


def known_elements(machine: Machine, value: Value) -> list[Value] | tuple[Value, ...] | None:
    """The items of a container, None for everything else."""
    if isinstance(value, (ListValue, TupleValue)):
        return value.items
    if isinstance(value, DictValue):
        return [key for key, _ in value.items.values()]
    if isinstance(value, DictViewValue):
        return value.elements()
    if isinstance(value, SetValue):
        return set_order(machine, value)
    if isinstance(value, ConstantValue) and isinstance(value.value, CONSTANT_ITERABLES):
        if len(value.value) > machine.options.unroll_limit:
            raise Break(LimitReached(f"a loop of {len(value.value):,} turns", machine.expression()))
        return [ConstantValue(item) for item in value.value]
    if isinstance(value, ConstantValue) and isinstance(value.value, type) and issubclass(type(value.value), type):
        import enum

        if issubclass(value.value, enum.Enum):
            return [ConstantValue(item) for item in value.value]
    return None


def set_order(machine: Machine, value: SetValue) -> list[Value]:
    """The order of a set that was made here is asked of one of Python's that came to be in the same way. Where none is known,
    that of numbers is taken for the order of a set to which they came one by one; others hash in a way of the process's own. That of a set
    from outside is guarded; how another one came to be that is made of it is not known."""
    told = value.told_order()
    if told is not None:
        return [value.items[key] for key in told]
    if value.source is not None and value.done == () and len(value.items) > 1:  # read in its own order
        if not value.is_by_position:
            machine.guards.add(value.source, ItemsComeAs(tuple(value.object)))
        return list(value.items.values())
    if value.recipe is not None and all(type(key) in (int, bool) for key in value.items):
        return [value.items[key] for key in set(iter(value.items))]
    if len(value.items) <= 1:
        return list(value.items.values())
    raise Break(ForeignValue("set", machine.expression()))


def rows(machine: Machine, value: TensorValue) -> list[Value]:
    """Iterating a tensor is `unbind(0)`."""
    from dynascope.capture.calls.tensors import apply_method

    if value.example.dim() == 0:
        raise machine.throw(TypeError, "iteration over a 0-d tensor")
    return list(apply_method(machine, torch.Tensor.unbind, [value, ConstantValue(0)], {}).items)


def advance(machine: Machine, value: Value) -> Value | None:
    value = machine.realize(value)
    if isinstance(value, IteratorValue):
        return next_item(machine, value)
    if isinstance(value, TurnValue):
        return next_turn(machine, value)
    if isinstance(value, GeneratorValue):
        from dynascope.capture.calls.generators import resume

        return resume(machine, value)
    if isinstance(value, ZipValue):
        return next_of_zip(machine, value)
    if isinstance(value, CountValue):
        current = value.next
        machine.journal.set(value, "next", current + value.step)
        return ConstantValue(current)
    return next_by_method(machine, value)


def next_item(machine: Machine, value: IteratorValue) -> Value | None:
    items = value.remaining_source()
    if value.source is not None:
        if is_spoiled(machine, value.object):
            raise Break(ForeignValue(value.cls.__name__, machine.expression()))
        machine.write(value)
    keeps_keys = value.owner is not None and value.cls is not REVERSED_LIST
    if keeps_keys and len(value.owner_items()) != len(value.keys):
        raise machine.throw(RuntimeError, changed_size(value.owner))
    if keeps_keys and value.has_other_keys():
        raise Break(ForeignValue(value.cls.__name__, machine.expression()))
    if value.position >= len(items):
        if value.cls is not itertools.repeat:  # which shows its item at its end too
            machine.journal.set(value, "items", ())
        machine.journal.set(value, "owner", None)
        return None
    item = value.item()
    machine.journal.set(value, "position", value.position + 1)
    return item


def changed_size(owner: Value) -> str:
    """CPython's words to who goes on iterating."""
    if isinstance(owner, ListValue):
        return "deque mutated during iteration"
    dictionary = owner.dictionary if isinstance(owner, DictViewValue) else owner
    if isinstance(dictionary, DictValue) and issubclass(dictionary.cls, collections.OrderedDict):
        return "OrderedDict mutated during iteration"
    return f"{'Set' if isinstance(owner, SetValue) else 'dictionary'} changed size during iteration"


def next_of_zip(machine: Machine, value: ZipValue) -> Value | None:
    taken = []
    if value.source is not None:
        machine.write(value)
    for at, part in enumerate(value.parts):
        item = advance(machine, part)
        if item is None:
            if value.strict:
                check_strict(machine, value, at)
            return None
        taken.append(item)
    if value.cls is enumerate:
        taken.reverse()
    return TupleValue(tuple(taken)) if taken else None


def check_strict(machine: Machine, value: ZipValue, ended: int) -> None:
    if ended > 0:
        earlier = " 1" if ended == 1 else f"s 1-{ended}"
        raise machine.throw(ValueError, f"zip() argument {ended + 1} is shorter than argument{earlier}")
    for at, part in enumerate(value.parts[1:], 1):
        if advance(machine, part) is not None:
            earlier = " 1" if at == 1 else f"s 1-{at}"
            raise machine.throw(ValueError, f"zip() argument {at + 1} is longer than argument{earlier}")


def next_by_method(machine: Machine, value: Value) -> Value | None:
    with machine.catching():
        try:
            return call_next(machine, value)
        except Raised as raised:
            if not issubclass(raised.value.python_type, StopIteration):
                raise
    return None


def call_next(machine: Machine, value: Value) -> Value:
    """What its class's own `__next__` gives. Raises StopIteration as it does, with what it tells there."""
    cls = value.python_type
    if not isinstance(value, InstanceValue) or lookup(cls, "__next__") is MISSING:
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    if cls in BUILTIN_ITERATORS:
        raise Break(LoopGoesOn(machine.expression()))
    return machine.call_now(special(machine, value, "__next__"), [])


def elements(machine: Machine, value: Value) -> list[Value]:
    """Everything an iterable gives, in order."""
    value = machine.known(value)
    known = known_elements(machine, value)
    if known is not None:
        return list(known)
    return rest(machine, iterator(machine, value))


def rest(machine: Machine, source: Value) -> list[Value]:
    """What an iterator still gives."""
    taken: list[Value] = []
    while (item := advance(machine, source)) is not None:
        taken.append(item)
        if len(taken) > machine.options.unroll_limit:
            raise Break(LimitReached(f"more than {machine.options.unroll_limit:,} items", machine.expression()))
    return taken
