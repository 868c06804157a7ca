"""A flag that a library keeps: what one of its functions in C, called without arguments, returns.

CallReturns(torch._C._get_cudnn_enabled, True)      check() == "`_get_cudnn_enabled()` is True"
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from dynascope.guards.guard import Equals, Predicate, constants_equal, short_repr


@dataclass(frozen=True)
class CallReturns(Predicate):
    """The function returns this constant."""

    function: types.BuiltinFunctionType
    value: Any

    def __hash__(self) -> int:
        return hash((self.function, Equals(self.value)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CallReturns)
            and self.function is other.function
            and constants_equal(self.value, other.value)
        )

    def holds(self) -> bool:
        return constants_equal(self.function(), self.value)

    def check(self) -> str:
        return f"`{self.function.__name__}()` is {short_repr(self.value)}"

    def failure(self, expression: str) -> str:
        return f"`{self.function.__name__}()` is {short_repr(self.function())}, and was {short_repr(self.value)}"
