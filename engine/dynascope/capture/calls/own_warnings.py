"""`warnings.warn` of the program: said in order when the graph has run, at each call, as if from where the program is now.

    warnings.warn("old", DeprecationWarning, stacklevel=2)      an effect, with the file, line and registry of the caller

Filters and registries are Python's own, asked when it is said. A guard says that none makes an error of a warning: where one does,
the program's own call raises it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, CellValue, NotConstant, Value, constant_of
from dynascope.guards.state_calls import CallReturns
from dynascope.meta_kernels.torch_warnings import raises_errors

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NAMES = ("message", "category", "stacklevel", "source")
OF_COMPILED_CODE = 2
"""The level of the compiled code's frame, seen from `say_above`."""


@meaning(warnings.warn)
def warn(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    check_nothing_said(machine)
    given = {**dict(zip(NAMES, arguments, strict=False)), **keywords}
    known = {name: constant_of(machine.known(value)) for name, value in given.items()}
    message, category = known.get("message"), known.get("category") or UserWarning
    level = known.get("stacklevel", 1)
    is_plain = isinstance(message, str) and isinstance(category, type) and issubclass(category, Warning)
    if not is_plain or type(level) is not int or not known.keys() <= {*NAMES} or known.get("source") is not None:
        raise Break(ForeignCall("warnings.warn", "it is given something other than a text and a class of warnings"))
    if any(type(value) is NotConstant for value in known.values()) or raises_errors():
        raise Break(ForeignCall("warnings.warn", "a filter makes an error of it"))
    if are_looked_at(machine):
        raise Break(ForeignCall("warnings.warn", "the program looks at the list in which warnings are recorded"))
    machine.guards.add_state(CallReturns(raises_errors, False))
    machine.journal.append(machine.said, call_of(machine, message, category, max(level, 1)))
    return NONE


def check_nothing_said(machine: Machine) -> None:
    if machine.warning_blocks:
        raise Break(ForeignCall(machine.expression(), "it warns where warnings are caught"))


def are_looked_at(machine: Machine) -> bool:
    """Whether a function that is followed has the list of `catch_warnings(record=True)`: what is said at the end comes too late for it."""
    log = getattr(getattr(warnings, "_showwarnmsg_impl", None), "__self__", None)
    if type(log) is not list:
        return False
    values = (value for frame in machine.frames for value in (*frame.slots.values(), *frame.stack))
    contents = (value.content if isinstance(value, CellValue) else value for value in values)
    return any(getattr(content, "object", None) is log for content in contents)


def call_of(machine: Machine, message: str, category: type[Warning], level: int) -> tuple[Any, tuple]:
    """The call that says it: about a frame that is followed, or about one above those."""
    above = level - len(machine.frames)
    if above > 0:
        return say_above, (message, category, above + OF_COMPILED_CODE)
    frame = machine.frames[-level]
    position = frame.instruction.position
    line = frame.code.co_firstlineno if position is None else position.line
    return say, (message, category, frame.code.co_filename, line, frame.globals)


def say_above(message: str, category: type[Warning], level: int) -> None:
    warnings.warn(message, category, level)


def say(message: str, category: type[Warning], file: str, line: int, globals: dict) -> None:
    registry = globals.setdefault("__warningregistry__", {})
    module = globals.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, file, line, module, registry)
