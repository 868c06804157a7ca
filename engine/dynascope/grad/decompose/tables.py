"""How a family's file registers its decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Decomposition = Callable[..., Any]


def decomposing(table: dict[Any, Decomposition]) -> Callable[..., Callable[[Decomposition], Decomposition]]:
    """A decorator that puts a decomposition into `table` for the operators it is given."""

    def decomposes(*operators: Any) -> Callable[[Decomposition], Decomposition]:
        def register(function: Decomposition) -> Decomposition:
            table.update(dict.fromkeys(operators, function))
            return function

        return register

    return decomposes
