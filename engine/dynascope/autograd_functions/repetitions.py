"""Torch's operators that call a function again and again, captured, as targets of one node of a graph.

    scan(f, init, xs)            Scanned(graph of f)(init, xs, ...)              carry, y = f(carry, x) for each row x; all y stacked
    map(f, xs)                   Scanned(graph of f)(xs, ...)                    nothing is carried
    while_loop(c, f, state)      Looped(graph of c, graph of f)(state, ...)      state = f(state) while c(state)

Operands and results are flat: what is carried first, then rows, then what else the functions read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass

Tensors = Sequence[torch.Tensor]
Run = Callable[[fx.GraphModule, Sequence[Any]], Any]


def called(graph: fx.GraphModule, operands: Sequence[Any]) -> Any:
    return graph.forward(*operands)


@dataclass(frozen=True, eq=False)
class Scanned:
    """`carried` of the operands go from step to step, the next `rows` are cut along their first dimension."""

    name: str
    forward: fx.GraphModule
    carried: int
    rows: int

    def __post_init__(self) -> None:
        """As fx names what a node calls."""
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, *operands: Any) -> tuple[torch.Tensor, ...]:
        return self.applied(called, operands)

    def applied(self, run: Run, operands: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """With `run(graph, operands)` for each step."""
        carry, made = self._stepped(run, operands, None)
        return (*carry, *map(torch.stack, zip(*made, strict=True)))

    def described(self, arguments: Sequence[Any], keywords: Any) -> tuple[torch.Tensor, ...]:
        """Of meta tensors: all steps give what the first ones do. By then what is carried requires grad if it ever does."""
        carry, made = self._stepped(called, arguments, self.carried + 2)
        count = len(arguments[self.carried])
        return (*carry, *(each.unsqueeze(0).repeat(count, *[1] * each.dim()) for each in made[-1]))

    def _stepped(self, run: Run, operands: Sequence[Any], most: int | None) -> tuple[Tensors, list[Tensors]]:
        end = self.carried + self.rows
        carry, rows, others = operands[: self.carried], operands[self.carried : end], operands[end:]
        made = []
        for step in list(zip(*(each.unbind() for each in rows), strict=True))[:most]:
            results = tuple(run(self.forward, (*carry, *step, *others)))
            carry = results[: self.carried]
            made.append(results[self.carried :])
        return carry, made


@dataclass(frozen=True, eq=False)
class Looped:
    """Both functions read the same operands, of which the first `carried` are what the loop changes."""

    condition: fx.GraphModule
    forward: fx.GraphModule
    carried: int

    def __post_init__(self) -> None:
        """As fx names what a node calls."""
        object.__setattr__(self, "__name__", "while_loop")
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, *operands: Any) -> tuple[torch.Tensor, ...]:
        carry, others = operands[: self.carried], operands[self.carried :]
        if carry[0].is_meta:
            return tuple(self.forward.forward(*operands))
        made = tuple(each.clone() for each in carry)  # its own memory, however often the loop runs
        while self.condition.forward(*made, *others)[0]:
            made = tuple(self.forward.forward(*made, *others))
        return made

    def described(self, arguments: Sequence[Any], keywords: Any) -> tuple[torch.Tensor, ...]:
        """Of meta tensors: each step gives what the first does."""
        return self(*arguments)
