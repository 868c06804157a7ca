"""Objects and their `__dict__`, modules and their names: what is written to one is not seen in the other, where each was reached by a way
of its own.

    names["a"] = 5; return x * held.a     a guard: `names` is not the `__dict__` of `held`
    ... and it is in this call            a break

A dictionary without a name that was read off an object is not that object's: its keys are guarded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dynascope.capture.reasons import AliasedMutation
from dynascope.capture.signals import Break
from dynascope.capture.values import DictValue, InstanceDictionaryValue, InstanceValue, Value, own_dictionary
from dynascope.guards.guard import NotSameObject
from dynascope.guards.source import AttributeSource, ConstantSource, DictionaryAttributeSource, GlobalSource, Source

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def check(machine: Machine, outside: list[Value]) -> None:
    """Breaks where one is the other's and either is written; guards that they stay apart."""
    known = machine.outside.by_identity
    for owner, name in machine.global_writes:
        if isinstance(names := known.get(owner), DictValue):
            raise Break(AliasedMutation(name, names.source.expression()))
    written = [each for each in machine.written if isinstance(each, (DictValue, InstanceValue)) and each.source]
    owners = [each for each in outside if isinstance(each, InstanceValue) and own_dictionary(each) is not None]
    if written:
        check_owners(machine, owners)
    if written or machine.global_writes:
        guard_apart(machine, [each for each in outside if is_whole(each)], owners)


def check_owners(machine: Machine, owners: list[InstanceValue]) -> None:
    firsts: dict[int, InstanceValue] = {}
    for owner in owners:
        own = own_dictionary(owner)
        first, found = firsts.setdefault(id(own), owner), machine.outside.by_identity.get(id(own))
        if first.attributes is not owner.attributes and (first.changed or owner.changed):
            raise Break(AliasedMutation(first.source.expression(), owner.source.expression()))
        if not isinstance(found, DictValue) or not (found.changed or owner.changed) or owner.attributes.get("__dict__") is found:
            continue
        if found.changed or found.source != AttributeSource(first.source, "__dict__"):
            raise Break(AliasedMutation(owner.source.expression(), found.source.expression()))


def guard_apart(machine: Machine, dictionaries: list[DictValue], owners: list[InstanceValue]) -> None:
    if not dictionaries:
        return
    names = names_read(machine)
    places = [(AttributeSource(owner.source, "__dict__"), own_dictionary(owner), owner.source, owner.changed) for owner in owners]
    places += [(ConstantSource(f"globals of {at}", held), held, at, is_written) for at, held, is_written in modules_read(machine, names)]
    for place, held, owner, is_written in places:
        for dictionary in dictionaries:
            if not (is_written or dictionary.changed) or dictionary.object is held or dictionary.source == place:
                continue
            if names.get(owner, frozenset()) <= dictionary.original.keys():
                machine.guards.add_pair(dictionary.source, place, NotSameObject())


def is_whole(value: Value) -> bool:
    is_plain = isinstance(value, DictValue) and not isinstance(value, InstanceDictionaryValue) and value.cls is dict
    return is_plain and value.source is not None and value.object is not None


def names_read(machine: Machine) -> dict[Source | str | None, set[str]]:
    """Those found in each object's dictionary, by the object's place, and in each module (None: the function's own)."""
    found: dict[Source | str | None, set[str]] = {}
    for source in machine.outside.by_source:
        if isinstance(source, DictionaryAttributeSource):
            found.setdefault(source.base, set()).add(source.name)
        elif isinstance(source, GlobalSource):
            found.setdefault(source.module, set()).add(source.name)
    return found


def modules_read(machine: Machine, names: dict) -> Iterator[tuple[str | None, dict, bool]]:
    """Of the program's: their names, what they hold, and whether the program writes to them."""
    written = {owner for owner, _ in machine.global_writes}
    for module in [each for each in names if not isinstance(each, Source)]:
        held = machine.values.globals if module is None else vars(sys.modules[module])
        yield module, held, id(held) in written
