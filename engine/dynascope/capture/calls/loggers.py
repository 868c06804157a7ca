"""Loggers: whether one is on is asked of the logger itself, and guarded; what it says is an effect, said when the graph has run.

    logger.debug("loss %s", loss)               nothing, while the guard on the logger's own answer holds
    logger.info("loss %.3f", loss.item())       a record with the file, line and function of the program, made and handled in order

Only where libraries alone hear it (`guards/log_handling.py`): what the program itself does with a record is done where it says it. The text
of a tensor is made where the program makes it, because its numbers may be others when the graph has run; one with numbers in it is
written with these (`texts.py`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls import texts
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.expressions import callee
from dynascope.capture.places import is_engine
from dynascope.capture.reasons import ForeignCall, ReportingCall, UnrebuildableValue
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    InstanceValue,
    MutableValue,
    Value,
    boolean,
    constant_of,
)
from dynascope.guards.log_handling import HandledByLibraries, hearing, is_handled_by_libraries
from dynascope.guards.state_calls import LogsAt

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame
    from dynascope.capture.machine import Machine

NAMES = ("self", "level", "msg", "args", "exc_info", "extra", "stack_info", "stacklevel")
HANDLERS = "Look at the logger's handlers, or change them, before the call or after it."
PLAIN = (logging.Logger.makeRecord, logging.Logger.handle, logging.Logger.findCaller)


@meaning(logging.Logger.isEnabledFor)
def is_enabled_for(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    logger = machine.realize(arguments[0])
    if not isinstance(logger, InstanceValue) or logger.object is None or logger.changed:
        raise Break(ForeignCall("isEnabledFor", "its logger is made inside"))
    level = machine.object_of([*arguments, *keywords.values()][1])
    answer = logging.Logger.isEnabledFor(logger.object, level)
    machine.guards.add(logger.source, LogsAt(level, answer))
    return boolean(answer)


@meaning(logging.getLogger)
def get_logger(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """There is one of each name, and it stays."""
    names = [machine.object_of(value) for value in (*arguments, *keywords.values())]
    return machine.outside.fixed(logging.getLogger(*names), "logging.getLogger")


@meaning(logging.Logger._log)
def log(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = {**dict(zip(NAMES, arguments, strict=False)), **keywords}
    logger, caller = machine.realize(given["self"]), caller_of(machine, given)
    settings = [constant_of(machine.known(given.get(name, NONE))) for name in ("exc_info", "extra", "stack_info")]
    if caller is None or any(settings) or not is_followed(machine, logger):
        raise Break(ReportingCall(callee(machine.expression()) or "logging"))
    level = ConstantValue(machine.object_of(given["level"]))
    message, values = kept(machine, given["msg"]), kept(machine, given["args"])
    check_rendered(machine, message, values)
    position = caller.instruction.position
    line = caller.code.co_firstlineno if position is None else position.line
    place = (caller.code.co_filename, line, caller.code.co_name)
    machine.journal.append(machine.said, (say, (logger, level, message, values, place)))
    return NONE


def is_followed(machine: Machine, logger: Value) -> bool:
    """Whether what it says may be said at the end, as a guard asks again."""
    if not isinstance(logger, InstanceValue) or not issubclass(type(logger.object), logging.Logger) or logger.source is None:
        return False
    cls = type(logger.object)
    if any(getattr(cls, function.__name__) is not function for function in PLAIN) or not logging._srcfile:
        return False
    if not is_handled_by_libraries(logger.object) or is_changed(machine, logger.object):
        return False
    machine.guards.add(logger.source, HandledByLibraries(True))
    return True


def caller_of(machine: Machine, given: Keywords) -> Frame | None:
    """The frame that the record names, as `findCaller` counts them; None where it is not one of those that are followed."""
    level = constant_of(machine.known(given.get("stacklevel", ConstantValue(1))))
    frames = [frame for frame in reversed(machine.frames) if not is_internal(frame)]
    return frames[level - 1] if type(level) is int and 1 <= level <= len(frames) else None


def is_internal(frame: Frame) -> bool:
    return is_engine(frame.globals) or frame.code.co_filename == logging._srcfile


def kept(machine: Machine, value: Value) -> Value:
    found = texts.kept(machine, value)
    if found is None:
        raise Break(ReportingCall(callee(machine.expression()) or "logging"))
    return found


def check_rendered(machine: Machine, message: Value, values: Value) -> None:
    """What cannot be written would be said by the handler, with the frames that led there."""
    try:
        record = logging.LogRecord("", 0, "", 0, texts.example(message), texts.example(values), None)
        record.getMessage()
    except Exception:
        raise Break(ReportingCall(callee(machine.expression()) or "logging")) from None


def is_changed(machine: Machine, logger: logging.Logger) -> bool:
    """Whether the program has changed what hears the logger, or the streams of the process, or looks at a handler itself."""
    if any(owner is vars(sys) or owner is vars(logging) for owner, _ in machine.global_writes.values()):
        return True
    known = machine.outside.by_identity
    for thing in hearing(logger):
        met = [known.get(id(each)) for each in parts(thing)]
        if any(isinstance(value, MutableValue) and value.changed for value in met):
            return True
        if not isinstance(thing, logging.Logger) and met[0] is not None and thing is not logging:
            return True
    return False


def parts(thing: Any) -> Iterable[Any]:
    own = getattr(thing, "__dict__", {})
    return thing, own, *(own[name] for name in ("handlers", "filters") if name in own and isinstance(thing, logging.Filterer))


def check_heard(machine: Machine) -> None:
    """At the end of a capture: what is said then is heard as it would have been heard where the program said it."""
    loggers = [arguments[0].object for function, arguments in machine.said if function is say]
    if any(is_changed(machine, logger) for logger in {id(logger): logger for logger in loggers}.values()):
        raise Break(UnrebuildableValue("what a logger says before its handlers are looked at or changed", HANDLERS))


def say(logger: logging.Logger, level: int, message: Any, values: Any, place: tuple[str, int, str]) -> None:
    file, line, function = place
    logger.handle(logger.makeRecord(logger.name, level, file, line, message, values, None, function))
