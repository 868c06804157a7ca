"""Draws from generators of Python's `random` and NumPy's `numpy.random`, as what a node of a graph calls.

    HostDraw(numpy.random.rand)(3)                    the three numbers as a tensor
    HostDraw(random.uniform)(0, 1)                    a float
    HostDraw(numpy.random.default_rng(0).beta)(2, 2)  of a generator that the program has made

Each is an operator between kernels, in the program's order, that moves the generator on as eager does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from dynascope.capture.numpy_numbers import IS_THERE, numpy
from dynascope.dataclass import dataclass


@dataclass(frozen=True, eq=False)
class HostDraw:
    """`function` is bound to its generator. Arrays are tensors here, given and come back; with `of_copy` the function moves what an array
    holds, and a copy of its only argument is given to it, and back."""

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
        told = [each.numpy() if isinstance(each, torch.Tensor) else each for each in arguments]
        named = {name: each.numpy() if isinstance(each, torch.Tensor) else each for name, each in keywords.items()}
        made = self.function(*told, **named)
        return made if isinstance(made, (int, float)) else torch.from_numpy(made)

    @property
    def generator(self) -> Any:
        return self.function.__self__  # type: ignore[attr-defined]

    def as_python(self) -> tuple[str, set[str]]:
        """The text that makes it, and the imports that it needs. A generator that the program has made is a new one there."""
        owners = {id(PYTHONS): "random", id(NUMPYS): "numpy.random"}
        owner = owners.get(id(self.generator)) or {NEW_KIND: "numpy.random.default_rng()", NUMPYS_KIND: "numpy.random.RandomState()"}.get(
            type(self.generator), "random.Random()"
        )
        text = f"HostDraw({owner}.{self.function.__name__}{', of_copy=True' * self.of_copy})"
        return text, {f"import {'numpy' if owner.startswith('numpy') else 'random'}", f"from {__name__} import HostDraw"}

    def state(self) -> Callable[[], Any]:
        """What puts the generator back to where it is now."""
        generator = self.generator
        if type(generator) is random.Random:
            now = generator.getstate()
            return lambda: generator.setstate(now)
        if type(generator) is NUMPYS_KIND:
            kept = generator.get_state(legacy=False)
            return lambda: generator.set_state(kept)
        bits, at = generator.bit_generator, generator.bit_generator.state
        return lambda: setattr(bits, "state", at)


PYTHONS: Any = random.random.__self__  # type: ignore[attr-defined]
"""The generator of the functions in `random`."""
NUMPYS: Any = getattr(numpy.random.rand, "__self__", None) if IS_THERE else None


NUMPYS_KIND: Any = type(NUMPYS)
NEW_KIND: Any = numpy.random.Generator if IS_THERE else None
KINDS = (random.Random, NUMPYS_KIND, NEW_KIND) if IS_THERE else (random.Random,)
"""The classes of generators. What draws from one of a subclass is that class's own."""


def twin_of(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The same method of a generator that nobody else has; None where it is no method of a generator."""
    owner = getattr(function, "__self__", None)
    if type(owner) not in KINDS:
        return None
    twin = NEW_KIND(type(owner.bit_generator)(0)) if type(owner) is NEW_KIND else type(owner)(0)
    return getattr(twin, function.__name__, None)
