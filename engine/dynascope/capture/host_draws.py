"""Draws from the generators of Python's `random` and NumPy's `numpy.random`, as what a node of a graph calls.

    HostDraw("numpy.random", numpy.random.rand)(3)      the three numbers as a tensor
    HostDraw("random", random.uniform)(0, 1)            a float

Each is an operator between kernels, in the program's order, that moves the process's own generator on as eager does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dynascope.capture.numpy_numbers import IS_THERE, numpy


@dataclass(frozen=True, eq=False)
class HostDraw:
    """`function` is bound to the generator of `module`. Arrays come back as tensors; with `of_copy` the function moves what an array
    holds, and a copy of its only argument is given to it, and back."""

    module: str
    function: Callable[..., Any]
    of_copy: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", f"draw_{self.function.__name__}")
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self.of_copy:
            array = arguments[0].numpy().copy()
            self.function(array)
            return torch.from_numpy(array)
        made = self.function(*arguments, **keywords)
        return made if isinstance(made, (int, float)) else torch.from_numpy(made)

    def state(self) -> Callable[[], Any]:
        """What puts the generator back to where it is now."""
        if self.module == "random":
            now = random.getstate()
            return lambda: random.setstate(now)
        kept = numpy.random.get_state(legacy=False)
        return lambda: numpy.random.set_state(kept)


PYTHONS: Any = random.random.__self__  # type: ignore[attr-defined]
"""The generator of the functions in `random`."""
NUMPYS: Any = getattr(numpy.random.rand, "__self__", None) if IS_THERE else None


def twin_of(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The same method of a generator that nobody else has; None where it is no method of the process's own."""
    owner = getattr(function, "__self__", None)
    if owner is None or (owner is not PYTHONS and owner is not NUMPYS):
        return None
    return getattr(random.Random(0) if owner is PYTHONS else numpy.random.RandomState(0), function.__name__, None)


def module_of(function: Callable[..., Any]) -> str:
    return "random" if function.__self__ is PYTHONS else "numpy.random"  # type: ignore[attr-defined]
