"""Objects in C that the program makes inside, from constants, and whose methods know nothing but the object: generators of numbers with
a seed of their own, texts that are written in memory.

    rng = random.Random(0); rng.random()          the same number at each call
    text = io.StringIO(); text.write("a")         what `getvalue` gives is known

So each method is called when the program is followed, on an object of capture's own, and its result is a constant. The state is held as
Python pickles it; where the object leaves, or is alive across a break, compiled code makes another one of that. Methods in Python
(`random.Random.shuffle`) are followed like the user's, down to those in C.
"""

from __future__ import annotations

import copy
import random
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls import numpy_calls
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.pure import value_of
from dynascope.capture.calls.registry import meaning
from dynascope.capture.known_states import HAVE_STATES, STREAMS, state_of, with_state
from dynascope.capture.numpy_numbers import IS_THERE, TYPES, numpy
from dynascope.capture.protocols.classes import lookup
from dynascope.capture.reasons import ForeignCall, PrintCall
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, InstanceValue, NotConstant, Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NUMBERS_AND_TEXT = (int, float, str, bytes)
SIMPLE = (*NUMBERS_AND_TEXT, bool, complex, types.NoneType)
"""What is told and given: its text, too, is the same wherever it is asked for."""
MAKERS: tuple[Any, ...] = (random.Random, *STREAMS)
if IS_THERE:
    MAKERS += (numpy.random.RandomState, numpy.random.default_rng)


def make(machine: Machine, maker: Callable[..., Any], arguments: Arguments, keywords: Keywords) -> Value:
    """A generator without a seed is another one at each call."""
    told, named = told_of(machine, arguments), told_of(machine, keywords.values())
    is_told = told is not None and named is not None
    is_seeded = is_told and len([*told, *named]) == 1 and all(type(each) in NUMBERS_AND_TEXT for each in (*told, *named))
    if not is_told or not (is_seeded or maker in STREAMS):
        raise Break(ForeignCall(machine.expression().partition("(")[0]))
    try:
        made = maker(*told, **dict(zip(keywords, named, strict=True)))
    except Exception:  # which the call says itself
        raise Break(ForeignCall(machine.expression().partition("(")[0])) from None
    value = InstanceValue(type(made))
    value.arguments = (ConstantValue(state_of(made)),)
    if type(made) is random.Random:  # its only part in Python
        value.attributes["gauss_next"] = NONE
    return value


def making(maker: Callable[..., Any]) -> Callable[[Machine, Arguments, Keywords], Value]:
    return lambda machine, arguments, keywords: make(machine, maker, arguments, keywords)


for _maker in MAKERS:
    meaning(_maker)(making(_maker))


def is_known(value: Value) -> bool:
    """Whether it was made inside: of one from outside the state is another at each call."""
    return isinstance(value, InstanceValue) and value.cls in HAVE_STATES and value.source is None


def of_method(machine: Machine, method: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """What a method in C gives; None where it is none of such an object, or gives what is no constant. NumPy's are functions with a
    class of their own, whose call is asked for."""
    if type(method) is types.WrapperDescriptorType and method.__name__ == "__call__" and arguments:
        method, arguments = getattr(machine.realize(arguments[0]), "object", None), arguments[1:]
        if any(method is each for each in MAKERS):
            return make(machine, method, arguments, keywords)
    value = machine.realize(arguments[0]) if arguments else NONE
    name = getattr(method, "__name__", "")
    is_its = is_known(value) and any(base.__dict__.get(name) is method for base in value.cls.__mro__)
    if not is_its or isinstance(lookup(value.cls, name), type):
        return None
    return done(machine, value, method, arguments[1:], keywords)


def done(machine: Machine, value: InstanceValue, function: Callable[..., Any], arguments: Arguments, keywords: Keywords) -> Value | None:
    """What `function` gives of an object like this one, which is then in the state that it leaves."""
    told, named = told_of(machine, arguments), told_of(machine, keywords.values())
    if told is None or named is None or draws_a_seed(function, [*told, *named]):
        return None
    thing, before = with_state(value.arguments[0].value), copy.deepcopy(told)
    try:
        given = function(thing, *told, **dict(zip(keywords, named, strict=True)))
        state = state_of(thing)
    except Exception:  # which the call says itself
        return None
    result = value if given is thing else as_value(machine, given)
    if result is None or before != told:
        return None
    machine.write(value)
    machine.journal.set(value, "arguments", (ConstantValue(state),))
    return result


def draws_a_seed(function: Callable[..., Any], told: list[Any]) -> bool:
    return function.__name__ == "seed" and not all(type(each) in NUMBERS_AND_TEXT for each in told or [None])


def told_of(machine: Machine, values: Iterable[Value]) -> list[Any] | None:
    """What the method is told, where it is known and simple."""
    told = [constant_of(machine.known(each)) for each in values]
    return told if all(map(is_simple, told)) else None


def is_simple(thing: Any) -> bool:
    if type(thing) is NotConstant:
        return False
    return type(thing) in SIMPLE or thing in TYPES_TOLD or (type(thing) in (list, tuple) and all(map(is_simple, thing)))


TYPES_TOLD = (int, float, bool, *TYPES) if IS_THERE else ()
"""What NumPy is told as `dtype`."""


def as_value(machine: Machine, given: Any) -> Value | None:
    if IS_THERE and type(given) is numpy.ndarray:
        return numpy_calls.of_known_contents(machine, given)
    is_number = type(given) in TYPES
    return value_of(given) if is_number or is_simple(given) else None


@meaning(print)
def print_to(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`print(..., file=text)`, where that is written in memory."""
    others = dict(keywords)
    stream = machine.realize(others.pop("file", NONE))
    if is_known(stream) and stream.cls in STREAMS:
        printed = done(machine, stream, written_by_print, arguments, others)
        if printed is not None:
            return printed
    raise Break(PrintCall("print", machine.expression()))


def written_by_print(stream: Any, *texts: Any, **options: Any) -> None:
    print(*texts, file=stream, **options)
