"""A call with numbers in it, as a function of these numbers alone: what an operation of an expression may mean.

    Call(math.fsum, (([HOLE, HOLE],), {}), float)          `math.fsum([n, 0.5])` of n and 0.5
    Call(math.frexp, ((HOLE,), {}), float, at=0)           `math.frexp(n)[0]` of n

The function has no effects and gives the same for the same numbers. Its result is of one type: where a call would give another,
or NumPy has something to say about it, the call raises, and whoever runs it leaves the call to Python.
"""

from __future__ import annotations

import builtins
import collections
import hashlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

LENGTH = -1
"""In the place of an item: how many there are."""


ROWS = (list, tuple, collections.deque)


class Hole:
    """Where a number goes; a number of a type of NumPy's that does not vary stands there itself."""

    def __repr__(self) -> str:
        return "_"


HOLE = Hole()
Template = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments and keywords: nested rows with holes."""


class OtherResult(ArithmeticError):
    """A result of another type or length than the one that the code was made for."""


class Call:
    """`function(*arguments, **keywords)` of the numbers that fill the holes, in order; of its result the item `at`, where that is told,
    out of `count`."""

    def __init__(
        self, function: Callable[..., Any], template: Template, kind: type, at: int | None = None, count: int | None = None
    ) -> None:
        self.function, self.template, self.kind, self.at, self.count = function, template, kind, at, count
        self.spelled = spelled(function)
        self.symbol = ""
        """Of an operator that is written between its operands."""
        digest = hashlib.blake2b(repr(self.key).encode(), digest_size=8).hexdigest()
        self.name = f"{self.spelled.replace('.', '_')}_{digest}"
        self.__module__, _, self.__name__ = self.spelled.rpartition(".")
        self.__qualname__ = self.__name__
        self.last: tuple[tuple[Any, ...], Any] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return self.spelled, repr(self.template), self.kind, self.at, self.count

    def __call__(self, *numbers: Any) -> Any:
        result = self._result(numbers)
        if self.at == LENGTH:
            return len(result)
        if self.at is not None:
            if not is_row(result) or len(result) != self.count:
                raise OtherResult(f"{self.spelled} gives something else than {self.count} items")
            result = result[self.at]
        if type(result) is not self.kind:
            raise OtherResult(f"{self.spelled} gives no {self.kind.__name__}")
        return result

    def _result(self, numbers: tuple[Any, ...]) -> Any:
        """Of several items each is asked for by itself, of the very same numbers."""
        last = self.last
        if self.at is not None and last is not None and len(last[0]) == len(numbers) and all(map(_is, last[0], numbers)):
            return last[1]
        result = called(self.function, *filled(self.template, numbers))
        if self.at is not None:
            self.last = numbers, result
        return result

    def text(self, parts: list[str]) -> str:
        """The call in Python's words."""
        given, keywords = filled(self.template, parts, _words)
        words = ", ".join([*given, *(f"{name}={word}" for name, word in keywords.items())])
        made = f"({f' {self.symbol} '.join(given)})" if self.symbol else f"{self.spelled}({words})"
        return made if self.at is None else f"len({made})" if self.at == LENGTH else f"{made}[{self.at}]"


def called(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What it gives. What NumPy would warn of is an error (`FloatingPointError`)."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return function(*arguments, **keywords)
    with numpy.errstate(divide="raise", over="raise", invalid="raise"):
        return function(*arguments, **keywords)


def filled(template: Template, numbers: Any, make: Callable[[Any], Any] = lambda item: item) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments and keywords for these numbers; fresh lists."""
    given = iter(numbers)
    arguments, keywords = template
    return tuple(make(_filled(each, given)) for each in arguments), {n: make(_filled(each, given)) for n, each in keywords.items()}


def _filled(item: Any, given: Iterator[Any]) -> Any:
    if item is HOLE:
        return next(given)
    if type(item) in ROWS:
        return type(item)([_filled(each, given) for each in item])
    return item


def _words(item: Any) -> str:
    if type(item) in ROWS:
        inner = ", ".join(map(_words, item))
        return f"({inner}{',' if len(item) == 1 else ''})" if type(item) is tuple else f"[{inner}]"
    return item if type(item) is str else getattr(item, "__name__", repr(item))


def spelled(function: Callable[..., Any]) -> str:
    """As a program names it."""
    of = getattr(function, "__objclass__", type(function))
    owner = getattr(function, "__module__", None) or (of.__module__ if of.__module__.startswith("numpy") else "")
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", type(function).__name__)
    return name if owner in ("", "builtins") else f"{owner.lstrip('_')}.{name}"


def is_found(function: Callable[..., Any]) -> bool:
    """Whether its name leads to it: then it is no function that the program made (`numpy.frompyfunc`)."""
    first, *parts = spelled(function).split(".")
    found: Any = getattr(builtins, first, None) or sys.modules.get(first)
    for part in parts:
        found = getattr(found, part, None)
    return found is function


def is_row(result: Any) -> bool:
    return type(result) in (list, tuple) or (type(result).__name__ == "ndarray" and result.ndim == 1 and result.dtype.kind == "f")


def _is(left: Any, right: Any) -> bool:
    return left is right
