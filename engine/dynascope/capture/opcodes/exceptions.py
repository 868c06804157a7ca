"""Raising and catching, and the `with` statement.

The handled exception (what `raise` alone raises again) is the machine's `handled`; PUSH_EXC_INFO keeps the previous one
on the stack, as CPython does.
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.capture.calls.objects import is_subclass
from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine, operation
from dynascope.capture.protocols import attributes
from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import MISSING, lookup
from dynascope.capture.reasons import ForeignValue, ProgramRaises
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    NONE,
    NULL,
    ConstantValue,
    InstanceValue,
    MethodValue,
    Value,
    boolean,
)
from dynascope.frame.instructions import Instruction
from dynascope.frame.versions import RUNNING


@operation("RAISE_VARARGS")
def raise_varargs(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    if not instruction.argument:
        if machine.handled_now is NONE:
            raise machine.throw(RuntimeError, "No active exception to reraise")
        raise Raised(machine.handled_now, again=True)
    cause = frame.pop() if instruction.argument == 2 else None
    value = as_exception(machine, frame.pop())
    if cause is not None:
        cause = as_exception(machine, cause, "exception causes must derive from BaseException") if not is_none(cause) else NONE
        machine.journal.set_item(value.attributes, "__cause__", cause)
    if machine.handled_now is not NONE and machine.handled_now is not value:
        machine.journal.set_item(value.attributes, "__context__", machine.handled_now)
    raise Raised(value)


def is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


def as_exception(machine: Machine, value: Value, words: str = "exceptions must derive from BaseException") -> InstanceValue:
    """The instance to raise, of an instance or a class; `words` are what Python says of anything else."""
    if isinstance(value, ConstantValue) and isinstance(value.value, type) and issubclass(value.value, BaseException):
        made = machine.realize(machine.call_now(value, []))
        if not issubclass(made.python_type, BaseException):  # which Python says in other words
            raise Break(ProgramRaises("TypeError", machine.expression()))
        value = made
    if not isinstance(value, InstanceValue) or not issubclass(value.cls, BaseException):
        raise machine.throw(TypeError, words)
    if value.object is not None:
        raise Break(ForeignValue(value.cls.__name__, machine.expression()))
    return value


@operation("PUSH_EXC_INFO")
def push_exc_info(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    frame.push(machine.handled)
    frame.push(value)
    machine.journal.set(machine, "handled", value)


@operation("POP_EXCEPT")
def pop_except(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    machine.journal.set(machine, "handled", frame.pop())


@operation("CHECK_EXC_MATCH")
def check_exc_match(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    wanted = frame.pop()
    value = machine.realize(frame.stack[-1])
    return boolean(is_subclass(machine, value.python_type, wanted))


@operation("LOAD_ASSERTION_ERROR")
def load_assertion_error(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return ConstantValue(AssertionError)


@operation("BEFORE_WITH")
def before_with(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    manager = frame.pop()
    cls = manager.python_type
    for name, hint in (("__enter__", ""), ("__exit__", " (missed __exit__ method)")):
        if lookup(cls, name) is MISSING:
            text = f"{name_in_errors(cls)!r} object does not support the context manager protocol{hint}"
            raise machine.throw(TypeError, text)
    if not isinstance(manager, InstanceValue) and not is_device(manager):
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    frame.push(method_of(machine, manager, "__exit__"))
    return machine.call(method_of(machine, manager, "__enter__"), [])


def is_device(manager: Value) -> bool:
    return isinstance(manager, ConstantValue) and isinstance(manager.value, torch.device)


def method_of(machine: Machine, manager: Value, name: str) -> Value:
    """A device's is what its class has in C, which torch never changes."""
    if is_device(manager):
        return MethodValue(ConstantValue(getattr(torch.device, name)), manager)
    return special(machine, manager, name)


@operation("LOAD_SPECIAL")
def load_special(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    """The method of a `with`, bound: the slot above it, where the interpreter may keep the object, is NULL."""
    manager, name = frame.pop(), instruction.value
    cls = manager.python_type
    if lookup(cls, name) is MISSING:
        message = f"{full_name(cls)!r} object does not support the context manager protocol (missed {name} method)"
        if name == "__exit__" and MISSING not in (lookup(cls, "__aenter__"), lookup(cls, "__aexit__")):
            message += " but it supports the asynchronous context manager protocol. Did you mean to use 'async with'?"
        raise machine.throw(TypeError, message)
    frame.push(method_of(machine, manager, name))
    frame.push(NULL)


def full_name(cls: type) -> str:
    """As CPython's newer messages name a class."""
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


@operation("WITH_EXCEPT_START")
def with_except_start(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    """Below the exception: the one before it, the offset, and `__exit__`."""
    value = machine.realize(frame.stack[-1])
    arguments = [ConstantValue(value.python_type), value, attributes.get_now(machine, value, "__traceback__")]
    if RUNNING.exit_is_pair:
        leave, instance = frame.stack[-5], frame.stack[-4]
        return machine.call(leave, arguments if instance is NULL else [instance, *arguments])
    return machine.call(frame.stack[-4], arguments)


@operation("CLEANUP_THROW")
def cleanup_throw(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    raise Raised(frame.pop(), again=True)
