"""A function under one of torch's transforms (`torch.func`), captured, as the target of one node of a graph.

    vmap(lambda row: row.sin() * row.sum())(x)      graph: row -> (row.sin() * row.sum(),), mapped over dimension 0 of x

Operands and results are flat: the operands that the transform is about first, then what else the function reads. Torch's own
transform runs over the graph, for tensors, meta tensors and tensors that a recording watches alike.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from dynascope.dataclass import dataclass


@dataclass(frozen=True, eq=False)
class Transformed:
    """`inputs` says how many of the operands the transform is about, `results` how many results of the graph."""

    name: str
    forward: fx.GraphModule
    inputs: int

    def __post_init__(self) -> None:
        """As fx names what a node calls."""
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, *operands: Any) -> tuple[torch.Tensor, ...]:
        inputs, rest = operands[: self.inputs], operands[self.inputs :]
        return tuple(self.apply(lambda *given: tuple(self.forward.forward(*given, *rest)), inputs))

    def apply(self, function: Any, inputs: tuple) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Mapped(Transformed):
    """`torch.func.vmap`."""

    in_dims: tuple[int, ...]
    out_dims: tuple[int | None, ...]
    randomness: str

    def apply(self, function: Any, inputs: tuple) -> Any:
        return torch.func.vmap(function, self.in_dims, self.out_dims, self.randomness)(*inputs)


@dataclass(frozen=True, eq=False)
class Differentiated(Transformed):
    """`torch.func.grad_and_value`: the gradients, then the graph's results, of which the first is differentiated."""

    def apply(self, function: Any, inputs: tuple) -> Any:
        def split(*given: Any) -> Any:
            value, *others = function(*given)
            return value, tuple(others)

        gradients, (value, others) = torch.func.grad_and_value(split, tuple(range(self.inputs)), True)(*inputs)
        return (*gradients, value, *others)


@dataclass(frozen=True, eq=False)
class Pulled(Transformed):
    """`torch.func.vjp`: of the inputs, the last ones are cotangents, one for each result of the graph."""

    results: int

    def apply(self, function: Any, inputs: tuple) -> Any:
        primals, cotangents = inputs[: -self.results], inputs[-self.results :]
        return torch.func.vjp(function, *primals)[1](tuple(cotangents))


@dataclass(frozen=True, eq=False)
class Pushed(Transformed):
    """`torch.func.jvp`: half of the inputs are tangents. The results, and then theirs."""

    def apply(self, function: Any, inputs: tuple) -> Any:
        half = self.inputs // 2
        values, tangents = torch.func.jvp(function, inputs[:half], inputs[half:])
        return (*values, *tangents)


@dataclass(frozen=True, eq=False)
class Jacobian(Transformed):
    """`torch.func.jacrev` or `jacfwd`: for each result of the graph one matrix for each input."""

    transform: Any

    def apply(self, function: Any, inputs: tuple) -> Any:
        return tree_leaves(self.transform(function, tuple(range(self.inputs)))(*inputs))
