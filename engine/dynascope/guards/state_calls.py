"""What is asked again by a call: a flag that a library keeps in C, whether a logger is on.

CallReturns(torch._C._get_cudnn_enabled, True)      check() == "`_get_cudnn_enabled()` is True"
ContextHolds(scale, 2.0)                            check() == "the context variable `scale` holds 2.0"
LogsAt(10, False)                                   check() == "is off at level DEBUG"
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.guards.guard import Equals, Predicate, constants_equal, short_repr


@dataclass(frozen=True)
class CallReturns(Predicate):
    """The function returns this constant."""

    function: Callable[[], Any]
    value: Any

    def __hash__(self) -> int:
        return hash((self.function, Equals(self.value)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CallReturns)
            and self.function == other.function
            and constants_equal(self.value, other.value)
        )

    def holds(self) -> bool:
        return constants_equal(self.function(), self.value)

    def check(self) -> str:
        return f"`{self.function.__name__}()` is {short_repr(self.value)}"

    def failure(self, expression: str) -> str:
        return f"`{self.function.__name__}()` is {short_repr(self.function())}, and was {short_repr(self.value)}"


@dataclass(frozen=True, eq=False)
class Remembers(Predicate):
    """A function that remembers its results (`functools.lru_cache`) gives this one: asked as the program asks it, once for each of the
    program's calls, so that it counts them. Where its cache was cleared it computes it now."""

    arguments: tuple
    keywords: dict[str, Any]
    result: Any
    identity: int
    """Of a result that is no constant, which is not kept alive; the function does that. 0 of others."""

    def holds(self, function: Callable[..., Any]) -> bool:
        try:
            now = function(*self.arguments, **self.keywords)
        except Exception:  # the program's own call says it
            return False
        return id(now) == self.identity if self.identity else constants_equal(now, self.result)

    def check(self) -> str:
        return f"gives for {', '.join(map(short_repr, self.arguments))} what it gave"

    def failure(self, expression: str, function: Callable[..., Any]) -> str:
        return f"{expression} gives something else for {', '.join(map(short_repr, self.arguments))}: its cache was cleared"


@dataclass(frozen=True)
class Asked:
    """A function that is told what it is asked about."""

    function: types.BuiltinFunctionType
    arguments: tuple

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self) -> Any:
        return self.function(*self.arguments)


@dataclass(frozen=True)
class Setting:
    """Asks one of torch's modules of settings again, as a guard does."""

    module: Any
    __name__: str

    def __call__(self) -> Any:
        return getattr(self.module, self.__name__)


@dataclass(frozen=True)
class ContextHolds(Predicate):
    """A context variable holds this constant, where the call is made."""

    variable: ContextVar
    value: Any

    def __hash__(self) -> int:
        return hash((self.variable, Equals(self.value)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContextHolds) and self.variable is other.variable and constants_equal(self.value, other.value)

    def holds(self) -> bool:
        try:
            return constants_equal(self.variable.get(), self.value)  # given a default it would not ask for its own
        except LookupError:
            return False

    def check(self) -> str:
        return f"the context variable `{self.variable.name}` holds {short_repr(self.value)}"

    def failure(self, expression: str) -> str:
        try:
            now = short_repr(self.variable.get())
        except LookupError:
            now = "nothing"
        return f"the context variable `{self.variable.name}` holds {now}, and held {short_repr(self.value)}"


@dataclass(frozen=True)
class LogsAt(Predicate):
    """The logger is on, or off, at this level. It remembers its answer, so that asking again costs little."""

    level: int
    answer: bool

    def holds(self, logger: logging.Logger) -> bool:
        return logging.Logger.isEnabledFor(logger, self.level) is self.answer

    def check(self) -> str:
        return f"is {'on' if self.answer else 'off'} at level {logging.getLevelName(self.level)}"

    def failure(self, expression: str, logger: logging.Logger) -> str:
        words = ("off", "on")
        now, before = words[not self.answer], words[self.answer]
        return f"{expression} is {now} at level {logging.getLevelName(self.level)}, and was {before}"
