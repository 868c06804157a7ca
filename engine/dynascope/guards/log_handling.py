"""Who handles what a logger says: libraries alone, or the program's own code too.

HandledByLibraries(True)      check() == "is heard by handlers of libraries alone"

Handlers, filters, formatters and streams of libraries write a line somewhere. The program's own may look at anything, write anything and
raise, so they must be called where the program calls them.
"""

from __future__ import annotations

import functools
import logging
import sys
import types
from collections.abc import Iterator
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.guards.guard import Predicate
from dynascope.report.user_files import is_user_file


@dataclass(frozen=True)
class HandledByLibraries(Predicate):
    """Whether all that hears this logger is a library's."""

    answer: bool

    def holds(self, logger: logging.Logger) -> bool:
        return is_handled_by_libraries(logger) is self.answer

    def check(self) -> str:
        return f"is heard by handlers {'of libraries alone' if self.answer else 'of the program itself'}"

    def failure(self, expression: str, logger: logging.Logger) -> str:
        now, before = ("of the program itself", "of libraries alone") if self.answer else ("of libraries alone", "of the program itself")
        return f"{expression} is heard by handlers {now}, and was by those {before}"


def is_handled_by_libraries(logger: logging.Logger) -> bool:
    return logging.getLogRecordFactory() is logging.LogRecord and all(map(is_of_library, hearing(logger)))


def hearing(logger: logging.Logger) -> Iterator[Any]:
    """The logger, those above it that get its records, and what these are handed to."""
    each: logging.Logger | None = logger
    handlers: list[logging.Handler] = []
    while each is not None:
        yield each
        handlers += each.handlers
        each = each.parent if each.propagate else None
    yield from logger.filters
    for handler in handlers or filter(None, [logging.lastResort]):
        yield handler
        yield from (*handler.filters, handler.formatter or logging, getattr(handler, "stream", logging))


def is_of_library(thing: Any) -> bool:
    if isinstance(thing, (types.FunctionType, types.ModuleType)):
        return _is_module_of_library(thing.__module__ if isinstance(thing, types.FunctionType) else thing.__name__)
    own = getattr(thing, "__dict__", {}).values()
    return _is_class_of_library(type(thing)) and not any(isinstance(each, (types.FunctionType, types.MethodType)) for each in own)


@functools.lru_cache(maxsize=512)
def _is_class_of_library(cls: type) -> bool:
    return all(_is_module_of_library(base.__module__) for base in cls.__mro__)


def _is_module_of_library(name: str) -> bool:
    if name in sys.builtin_module_names:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return name != "__main__" and isinstance(file, str) and not is_user_file(file)
