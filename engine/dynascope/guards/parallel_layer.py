"""What compiled code assumes of a layer whose weights are DTensors: how they are placed, and what torch's hooks around it do.

    ParallelLayerIs.of(layer)        check() == "is a Linear in parallel, its weights placed as they were"
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.guards.guard import MODULE_HOOKS, Predicate, constants_equal

NUMBERS = (bool, int, float, str, tuple, type(None))
TABLES = ("_parameters", "_buffers", "_modules", *MODULE_HOOKS)


@dataclass(frozen=True)
class Part:
    """This rank's part of a DTensor: the tensor's specification (mesh, placements, sizes) and the facts of the part itself."""

    specification: Any
    dtype: torch.dtype
    device: torch.device
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool

    @classmethod
    def of(cls, tensor: Any) -> Part | None:
        """None where the part is no plain tensor, or of a layout of its own."""
        part = getattr(tensor, "_local_tensor", None)
        if type(part) is not torch.Tensor or part.layout != torch.strided:
            return None
        return cls(tensor._spec, part.dtype, part.device, tuple(part.shape), part.stride(), tensor.requires_grad)


@dataclass(frozen=True)
class PlacedAs(Predicate):
    """A DTensor of this rank's part, sizes and placements."""

    part: Part

    def holds(self, value: Any) -> bool:
        return hasattr(value, "_spec") and Part.of(value) == self.part

    def check(self) -> str:
        return f"is a DTensor of {tuple(self.part.specification.shape)}, placed {self._placed()}"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} is placed or made otherwise than before ({self._placed()})"

    def _placed(self) -> str:
        return ", ".join(map(str, self.part.specification.placements))


@dataclass(frozen=True)
class ParallelLayerIs(Predicate):
    """A module of this class with these weights, hooks and settings, and nothing else."""

    cls: type
    weights: tuple[tuple[str, type, Part | None], ...]
    hooks: tuple[tuple[Any, ...], ...]
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, module: torch.nn.Module) -> ParallelLayerIs:
        own = vars(module)
        weights = tuple((name, type(weight), Part.of(weight)) for name, weight in own["_parameters"].items())
        hooks = tuple(tuple(map(what_it_does, own[name].values())) for name in MODULE_HOOKS)
        settings = tuple((name, value) for name, value in own.items() if name not in TABLES and isinstance(value, NUMBERS))
        return cls(type(module), weights, hooks, settings)

    def holds(self, value: Any) -> bool:
        if type(value) is not self.cls:
            return False
        now = ParallelLayerIs.of(value)
        return now.weights == self.weights and now.hooks == self.hooks and constants_equal(now.settings, self.settings)

    def check(self) -> str:
        return f"is a {self.cls.__name__} in parallel, its weights placed as they were"

    def failure(self, expression: str, value: Any) -> str:
        if type(value) is self.cls:
            before = {name: (kind, part) for name, kind, part in self.weights}
            for name, kind, part in ParallelLayerIs.of(value).weights:
                if before.get(name) != (kind, part):
                    return f"{expression}.{name} is placed or made otherwise than before"
        return f"{expression} has other hooks or settings than before"


def what_it_does(hook: Any) -> Any:
    """Functions that were made of the same code around equal things are the same hook, wherever they hang: layers of a model have
    one each."""
    if isinstance(hook, functools.partial):
        return what_it_does(hook.func), hook.args, tuple(sorted(hook.keywords.items()))
    if not isinstance(hook, types.FunctionType):
        return hook
    cells = tuple(cell.cell_contents for cell in hook.__closure__ or ())
    return hook.__code__, hook.__defaults__, tuple(what_it_does(held) if callable(held) else held for held in cells)
