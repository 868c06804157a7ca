"""Containers made by calling their class."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents, numbers_in_tensors
from dynascope.capture.calls.arguments import Arguments, Keywords, argument, is_none
from dynascope.capture.calls.pure import compute
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import items
from dynascope.capture.protocols.classes import is_callable
from dynascope.capture.protocols.hashing import hash_key
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.protocols.length_hints import listed
from dynascope.capture.protocols.set_making import given_as, recipe
from dynascope.capture.reasons import DataDependentValue, ForeignCall, ForeignValue, ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    DictValue,
    ListValue,
    NotConstant,
    SetValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(list)
def list_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ListValue(listed(machine, arguments[0]) if arguments else [])


@meaning(tuple)
def tuple_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments:
        given = machine.realize(arguments[0])
        if isinstance(given, TupleValue) and given.cls is tuple:
            return given
        return TupleValue(tuple(listed(machine, given)))
    return TupleValue(())


@meaning(torch.Size)
def size_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    known = [machine.known(each) for each in listed(machine, arguments[0])] if arguments else []
    return TupleValue(tuple(known), torch.Size)


@meaning(set)
def set_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return make_set(machine, set, arguments)


@meaning(frozenset)
def frozenset_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return make_set(machine, frozenset, arguments)


def make_set(machine: Machine, cls: type, arguments: Arguments) -> Value:
    given = machine.realize(arguments[0]) if arguments else None
    if isinstance(given, SetValue) and given.cls is cls is frozenset:
        return given
    found: dict[Any, Value] = {}
    if isinstance(given, SetValue):  # whose order need not be known
        found |= given.items
    elif given is not None:
        for item in elements(machine, given):
            found.setdefault(hash_key(machine, item), machine.realize(item))
    return SetValue(found, cls, recipe=recipe(cls, *([] if given is None else [given_as(given, found)])))


@meaning(dict)
def dict_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return fill(machine, DictValue({}), arguments, keywords)


@meaning(collections.OrderedDict)
def ordered_dict(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    made = DictValue({}, collections.OrderedDict)
    if arguments and not isinstance(machine.realize(arguments[0]), DictValue):
        machine.finish(equivalents.enter(machine, equivalents.ordered_update_by, [made, arguments[0]]))
        arguments = ()
    return fill(machine, made, arguments, keywords)


@meaning(collections.defaultdict)
def default_dict(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    made = DictValue({}, collections.defaultdict)
    made.default_factory = machine.realize(arguments[0]) if arguments else NONE
    if not is_none(made.default_factory) and not is_callable(made.default_factory):
        raise machine.throw(TypeError, "first argument must be callable or None")
    return fill(machine, made, arguments[1:], keywords)


def fill(machine: Machine, target: DictValue, arguments: Arguments, keywords: Keywords) -> DictValue:
    for key, value in items.pairs(machine, arguments[0]) if arguments else []:
        items.put(machine, target, key, value)
    for name, value in keywords.items():
        items.put(machine, target, ConstantValue(name), value)
    return target


def of_keys(cls: type) -> None:
    @meaning(cls.fromkeys)  # type: ignore[attr-defined]
    def made_from(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        made, value = DictValue({}, cls), argument(arguments, keywords, 1, "value", NONE)
        for key in elements(machine, argument(arguments, keywords, 0, "iterable")):
            items.put(machine, made, key, value)
        return made


for _cls in (dict, collections.OrderedDict, collections.defaultdict):
    of_keys(_cls)


def of_items(cls: type) -> None:
    """`torch.return_types.max((values, indices))`: a tuple with names, in C, of as many items as it has."""

    @meaning(cls)
    def made_of(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        given = elements(machine, arguments[0]) if len(arguments) == 1 and not keywords else []
        if len(given) != cls.n_sequence_fields:  # type: ignore[attr-defined]
            raise Break(ProgramRaises("TypeError", machine.expression()))
        return TupleValue(tuple(given), cls)


for _cls in vars(torch.return_types).values():
    if isinstance(_cls, type) and getattr(_cls, "n_fields", None) == getattr(_cls, "n_sequence_fields", 0):
        of_items(_cls)


@meaning(collections.namedtuple)
def named_tuple(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """The class is made once, when it is captured: all that it is made of is known."""
    known = [constant_of(machine.known(each)) for each in arguments]
    named = {name: constant_of(machine.known(each)) for name, each in keywords.items()}
    if any(type(each) is NotConstant for each in (*known, *named.values())):
        raise Break(ForeignCall("collections.namedtuple", "it is made of something that is no constant"))
    named.setdefault("module", machine.frames[-1].globals.get("__name__", "__main__"))
    made = compute(machine, collections.namedtuple, tuple(known), named).value
    return machine.outside.fixed(made, made.__name__)


@meaning(slice)
def slice_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    parts = [machine.realize(each) for each in arguments]
    start, stop, step = (NONE, parts[0], NONE) if len(parts) == 1 else (*parts, *[NONE] * (3 - len(parts)))
    return SliceValue((start, stop, step))


@meaning(range)
def range_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    arguments = numbers_in_tensors.with_numbers(machine, arguments) or arguments
    known = [constant_of(machine.known(each)) for each in arguments]
    for each in known:
        if type(each) is NotConstant:
            if isinstance(each.value, TensorValue):
                raise Break(DataDependentValue(machine.expression(), "range"))
            raise Break(ForeignValue(each.value.python_type.__name__, machine.expression()))
    return compute(machine, range, tuple(known))
