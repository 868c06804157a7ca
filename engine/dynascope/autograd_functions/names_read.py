"""Names that the backward pass of a custom function reads, and what becomes of it where they lead to something else by then.

    backward: return gradient * SCALE          NameRead("SCALE", read, 2.0), checked in each backward pass
    y = f(x); SCALE = 5.0; y.sum().backward()  the program's own function runs, with a context made of what was kept

A backward pass is captured with its call, and runs later.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.dataclass import dataclass


@dataclass(frozen=True, eq=False)
class NameRead:
    """`value` is a weak reference to what can have one."""

    name: str
    read: Callable[[], Any]
    value: Any
    is_of_tensor: bool = False

    def is_changed(self) -> bool:
        try:
            now = self.read()
        except (AttributeError, KeyError, ValueError):  # it leads to nothing any more
            return True
        before = self.value() if isinstance(self.value, weakref.ref) else self.value
        if now is before:
            return False
        return type(now) is not type(before) or not isinstance(now, PLAIN) or now != before

    @staticmethod
    def of(name: str, read: Callable[[], Any], value: Any) -> NameRead:
        is_tensor = isinstance(value, torch.Tensor)
        held = weakref.ref(value) if is_tensor or isinstance(value, (type, types.FunctionType)) else value
        return NameRead(name, read, held, is_tensor)


PLAIN = (int, float, complex, str, bytes)
"""Equal ones are as good; of others it must be that very object."""


@dataclass(frozen=True, eq=False)
class OwnBackward:
    """The program's backward pass. `saved` and `attributes` say what its context holds: a place among what the captured one reads, or the
    value itself in a tuple. None where that is not known. `results` and `arguments` say which of the function's are tensors."""

    cls: weakref.ref[type]
    saved: tuple[int, ...]
    attributes: dict[str, int | tuple[Any]] | None
    results: tuple[bool, ...]
    arguments: tuple[int, ...]

    def gradients(self, name: str, gradients: Sequence[Any], kept: Sequence[Any], count: int) -> tuple:
        """As the captured pass gives them, one for each of `count` operands."""
        cls: Any = self.cls()
        if self.attributes is None or cls is None:
            raise RuntimeError(
                f"dynascope: a name that the backward pass of {name} reads has changed since the call, and its context cannot be made "
                "again. Call it in a function with @dynascope.disable."
            )
        held = {key: kept[at] if isinstance(at, int) else at[0] for key, at in self.attributes.items()}
        ctx = types.SimpleNamespace(saved_tensors=tuple(kept[at] for at in self.saved), **held)
        arriving = iter(gradients)
        found = cls.backward(ctx, *(next(arriving) if is_tensor else None for is_tensor in self.results))
        found = found if isinstance(found, tuple) else (found,)
        made = [found[at] for at in self.arguments]
        return tuple(made + [None] * (count - len(made)))
