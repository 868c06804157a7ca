"""A graph that was printed: a function, called as the graph was. So a program's text can make the objects that hold graphs.

    def vmap_forward(row): ...
    Mapped("vmap", Written(vmap_forward), ...)(x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynascope.dataclass import dataclass


@dataclass(frozen=True)
class Written:
    forward: Callable[..., tuple]

    def __call__(self, *inputs: Any) -> tuple:
        return self.forward(*inputs)
