"""Building containers and taking them apart, and the matching of patterns."""

from __future__ import annotations

from typing import Any

from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine, operation
from dynascope.capture.protocols import attributes, items
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import has_python_method, is_made
from dynascope.capture.protocols.hashing import dictionary_key, hash_key
from dynascope.capture.protocols.iteration import elements, is_iterable
from dynascope.capture.protocols.length_hints import listed
from dynascope.capture.protocols.set_making import given_as, note_change
from dynascope.capture.reasons import ForeignValue, ProgramRaises
from dynascope.capture.set_orders import SetRecipe
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    DictValue,
    InstanceValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
    boolean,
)
from dynascope.capture.world import note
from dynascope.frame.instructions import Instruction
from dynascope.frame.versions import RUNNING
from dynascope.guards.world import look_up


@operation("BUILD_TUPLE")
def build_tuple(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return TupleValue(tuple(frame.pop_many(instruction.argument)))


@operation("BUILD_LIST")
def build_list(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return ListValue(frame.pop_many(instruction.argument))


@operation("BUILD_SET")
def build_set(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    values = frame.pop_many(instruction.argument)
    found: dict[Any, Value] = {}
    for value in values:
        found.setdefault(hash_key(machine, value), value)
    return SetValue(found, recipe=SetRecipe(set, (tuple(found),)))


@operation("BUILD_MAP")
def build_map(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    flat = frame.pop_many(2 * instruction.argument)
    result = DictValue({})
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        items.put(machine, result, key, value)
    return result


@operation("BUILD_CONST_KEY_MAP")
def build_const_key_map(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    keys = frame.pop()
    values = frame.pop_many(instruction.argument)
    result = DictValue({})
    for key, value in zip(keys.items, values, strict=True):
        items.put(machine, result, key, value)
    return result


@operation("BUILD_SLICE")
def build_slice(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    parts = [machine.realize(part) for part in frame.pop_many(instruction.argument)]
    return SliceValue((*parts, *[NONE] * (3 - len(parts))))


def container_below(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    """The container that a display or comprehension fills. After a break inside, it comes from outside."""
    container = frame.stack[-instruction.argument] = machine.realize(frame.stack[-instruction.argument])
    if container.source is not None:
        machine.write(container)
    return container


@operation("LIST_APPEND")
def list_append(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value = frame.pop_unseen()
    machine.journal.append(container_below(machine, frame, instruction).items, value)


@operation("SET_ADD")
def set_add(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    key = hash_key(machine, value)
    target = container_below(machine, frame, instruction)
    if key not in target.items:
        machine.journal.set_item(target.items, key, value)
        note_change(machine, target, set.add, key)


@operation("MAP_ADD")
def map_add(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value, key = frame.pop_unseen(), frame.pop()
    items.put(machine, container_below(machine, frame, instruction), key, value)


@operation("LIST_EXTEND")
def list_extend(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    if not is_iterable(value):
        raise machine.throw(TypeError, f"Value after * must be an iterable, not {name_in_errors(value.python_type)}")
    added = listed(machine, value)
    target = container_below(machine, frame, instruction)
    machine.journal.set(target, "items", target.items + added)


@operation("SET_UPDATE")
def set_update(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    source = frame.pop()
    target = container_below(machine, frame, instruction)
    found = target.items
    added = {hash_key(machine, value): value for value in elements(machine, source)}
    for key, value in added.items():
        if key not in found:
            machine.journal.set_item(found, key, value)
    note_change(machine, target, set.update, given_as(machine.realize(source), added))


@operation("DICT_UPDATE", "DICT_MERGE")
def dict_update(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    source = machine.realize(frame.pop())
    target = container_below(machine, frame, instruction)
    if not isinstance(source, (DictValue, InstanceValue)) and not hasattr(source.python_type, "keys"):
        raise Break(ProgramRaises("TypeError", machine.expression()))  # also where nothing is in it
    for key, value in items.pairs(machine, source):
        if instruction.operation == "DICT_MERGE" and dictionary_key(machine, target, key) in target.items:
            raise Break(ProgramRaises("TypeError", machine.expression()))  # Python names what is called
        items.put(machine, target, key, value)


@operation("LIST_TO_TUPLE")
def list_to_tuple(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return TupleValue(tuple(frame.pop().items))


def unpacked(machine: Machine, value: Value) -> list[Value]:
    if not isinstance(value, (ListValue, TupleValue)) and not is_iterable(value):
        raise machine.throw(TypeError, f"cannot unpack non-iterable {name_in_errors(value.python_type)} object")
    return elements(machine, value)


@operation("UNPACK_SEQUENCE")
def unpack_sequence(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    values = unpacked(machine, value)
    count = instruction.argument
    if len(values) < count:
        raise machine.throw(ValueError, f"not enough values to unpack (expected {count}, got {len(values)})")
    if len(values) > count:
        told = RUNNING.tells_length_unpacked and machine.realize(value).python_type in (list, tuple, dict)
        got = f", got {len(values)}" if told else ""
        raise machine.throw(ValueError, f"too many values to unpack (expected {count}{got})")
    frame.stack.extend(reversed(values))


@operation("UNPACK_EX")
def unpack_ex(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    before, after = instruction.argument & 255, instruction.argument >> 8
    given = machine.realize(frame.stack[-1])
    if isinstance(given, InstanceValue) and has_python_method(given.cls, "__next__"):
        # Python makes the list of the rest from the iterator, which it asks for its iterator again.
        raise Break(ForeignValue(given.cls.__name__, machine.expression()))
    values = unpacked(machine, frame.pop())
    if len(values) < before + after:
        raise machine.throw(
            ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(values)})"
        )
    end = len(values) - after
    parts = [*values[:before], ListValue(values[before:end]), *values[end:]]
    frame.stack.extend(reversed(parts))


SEQUENCE, MAPPING, MATCHES_ITSELF = 1 << 5, 1 << 6, 1 << 22
"""What a class says of its objects to `match` (`Py_TPFLAGS_SEQUENCE` and its like, CPython's Include/object.h)."""


@operation("MATCH_SEQUENCE")
def match_sequence(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return boolean(bool(machine.realize(frame.stack[-1]).python_type.__flags__ & SEQUENCE))


@operation("MATCH_MAPPING")
def match_mapping(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return boolean(bool(machine.realize(frame.stack[-1]).python_type.__flags__ & MAPPING))


@operation("MATCH_KEYS")
def match_keys(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    keys, subject = machine.realize(frame.stack[-1]), machine.realize(frame.stack[-2])
    wanted = [hash_key(machine, key) for key in keys.items]
    if not isinstance(subject, DictValue) or subject.instance is not None or len(set(wanted)) != len(wanted):
        raise Break(ForeignValue(subject.python_type.__name__, machine.expression()))
    if any(key not in subject.items for key in wanted):
        return NONE
    return TupleValue(tuple(subject.items[key][1] for key in wanted))


@operation("MATCH_CLASS")
def match_class(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    from dynascope.capture.calls.objects import is_instance

    names, cls, subject = frame.pop(), machine.realize(frame.pop()), frame.pop()
    if not isinstance(cls, ConstantValue) or not isinstance(cls.value, type):
        raise machine.throw(TypeError, "called match pattern must be a class")
    if not is_instance(machine, subject, cls):
        return NONE
    positional = instruction.argument
    declared = getattr(cls.value, "__match_args__", None)
    if not is_made(cls.value):
        note(cls.value, "__match_args__", look_up(cls.value, "__match_args__"))
    asked = [*(declared[:positional] if type(declared) is tuple else ()), *(machine.object_of(name) for name in names.items)]
    if type(declared) not in (tuple, type(None)) or len(set(asked)) < len(asked) or not all(type(each) is str for each in asked):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    is_whole = declared is None and bool(cls.value.__flags__ & MATCHES_ITSELF)
    allowed = 1 if is_whole else len(declared or ())
    if positional > allowed:
        plural = "" if allowed == 1 else "s"
        text = f"{cls.value.__name__}() accepts {allowed} positional sub-pattern{plural} ({positional} given)"
        raise machine.throw(TypeError, text)
    found = [attributes.find(machine, subject, name) for name in asked]
    whole = [subject] if is_whole and positional else []
    return NONE if any(item is None for item in found) else TupleValue((*whole, *found))
