"""Pickles of what is known: caches use them for keys, because a dict of keywords cannot be one.

    cache[name, pickle.dumps(kwargs)]     the bytes are a constant where the keywords are
    pickle.dumps({"w": w})                a break where `w` is a tensor

A pickle says which of its texts and containers are one object, and that of equal ones is not known here: so only where no two are equal.
Of classes and functions it says where they are found, which may change.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.known_objects import SIMPLE
from dynascope.capture.calls.pure import compute
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

CONTAINERS = (list, tuple, dict)
WRITTEN_EACH_TIME = (bool, int, float, type(None))


@meaning(pickle.dumps)
def dumps(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    known = tuple(constant_of(machine.known(each)) for each in arguments)
    named = {name: constant_of(machine.known(each)) for name, each in keywords.items()}
    if not all(says_no_identities(each) for each in (*known, *named.values())):
        raise Break(ForeignCall("pickle.dumps", "it asks each object what it consists of"))
    return compute(machine, pickle.dumps, known, named)


def says_no_identities(thing: Any) -> bool:
    remembered = list(remembered_in(thing))
    return all(type(each) in (*SIMPLE, *CONTAINERS) for each in remembered) and len(set(map(repr, remembered))) == len(remembered)


def remembered_in(thing: Any) -> Iterator[Any]:
    """The parts that a pickle refers to where they come again."""
    if type(thing) not in WRITTEN_EACH_TIME:
        yield thing
    if type(thing) in CONTAINERS:
        for item in thing:
            yield from remembered_in(item)
    if type(thing) is dict:
        for item in thing.values():
            yield from remembered_in(item)
