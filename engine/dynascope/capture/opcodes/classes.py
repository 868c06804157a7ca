"""Class statements. The names of a class's body are a dictionary, which its frame keeps among its slots."""

from __future__ import annotations

from typing import Any

from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine, operation
from dynascope.capture.opcodes.names import load_deref, load_global
from dynascope.capture.reasons import ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, DictValue, Value
from dynascope.frame.instructions import Instruction

NAMESPACE = ".namespace"


def namespace_of(frame: Frame) -> DictValue | None:
    found = frame.slots.get(NAMESPACE)
    return found if isinstance(found, DictValue) else None


@operation("LOAD_BUILD_CLASS")
def load_build_class(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    found = machine.load_global(frame, "__build_class__")
    if found is None:
        raise Break(ProgramRaises("NameError", machine.expression()))
    return found


@operation("LOAD_NAME")
def load_name(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    namespace = namespace_of(frame)
    if namespace is not None and instruction.value in namespace.items:
        return namespace.items[instruction.value][1]
    return load_global(machine, frame, instruction)


@operation("STORE_NAME")
def store_name(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    name = instruction.value
    machine.journal.set_item(frame.slots[NAMESPACE].items, name, (ConstantValue(name), frame.pop_unseen()))


@operation("DELETE_NAME")
def delete_name(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    items = frame.slots[NAMESPACE].items
    if instruction.value not in items:
        raise machine.throw(NameError, f"name {instruction.value!r} is not defined")
    machine.journal.set(frame.slots[NAMESPACE], "items", {key: item for key, item in items.items() if key != instruction.value})


@operation("LOAD_LOCALS")
def load_locals(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return frame.slots[NAMESPACE]


@operation("SETUP_ANNOTATIONS")
def set_up_annotations(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    items = frame.slots[NAMESPACE].items
    if "__annotations__" not in items:
        machine.journal.set_item(items, "__annotations__", (ConstantValue("__annotations__"), DictValue({})))


@operation("LOAD_CLASSDEREF")
def load_class_deref(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return in_dictionary(machine, frame.slots[NAMESPACE], frame, instruction)


@operation("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return in_dictionary(machine, frame.pop(), frame, instruction)


def in_dictionary(machine: Machine, names: Value, frame: Frame, instruction: Instruction) -> Value:
    if isinstance(names, DictValue) and instruction.value in names.items:
        return names.items[instruction.value][1]
    return load_deref(machine, frame, instruction)


@operation("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    names = frame.pop()
    if isinstance(names, DictValue) and instruction.value in names.items:
        return names.items[instruction.value][1]
    return load_global(machine, frame, instruction)


__all__ = ["NAMESPACE", "namespace_of"]
