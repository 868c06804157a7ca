"""The backend `tvm`: functional graphs through torch's exporter and TVM's Relax, compiled by LLVM for the CPU.

torch 2.13 has one for TVM's Relay, which TVM has no more; this one is made of what both have today. Sizes and numbers are fixed ones,
and gradients are ours: forward and backward are a module of TVM's each.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.exported_graphs import example_of, exportable, generators_kept, made_in, result_of
from dynascope.runtime.operators import run_operators

aten = torch.ops.aten


def variance_and_mean(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Any, Any]:
    dimensions = list(range(x.dim())) if dim is None else list(dim)
    mean = aten.mean.dim(x, dimensions, True)
    away = aten.sub.Tensor(x, mean)
    count = math.prod(x.shape[each] for each in dimensions) - (1 if correction is None else correction)
    squares = aten.sum.dim_IntList(aten.mul.Tensor(away, away), dimensions, keepdim)
    variance = aten.div.Tensor(squares, max(count, 0))
    return variance, mean if keepdim else aten.mean.dim(x, dimensions, False)


def maximum_of(x: torch.Tensor, dim: Any = (), keepdim: bool = False) -> torch.Tensor:
    dimensions = sorted({each % x.dim() for each in dim} if dim else range(x.dim()), reverse=True)
    for each in dimensions:
        x = aten.max.dim(x, each, keepdim)[0]
    return x


def minimum_of(x: torch.Tensor, dim: Any = (), keepdim: bool = False) -> torch.Tensor:
    return aten.neg.default(maximum_of(aten.neg.default(x), dim, keepdim))


DECOMPOSITIONS = {
    aten.var_mean.correction: variance_and_mean,
    aten.amax.default: maximum_of,
    aten.amin.default: minimum_of,
}
"""What TVM's importer has no name for, by what it has."""


def compile_with_tvm(graph: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., tuple[Any, ...]]:
    """Raises what the exporter or TVM raise; an int among the inputs is refused, so that it becomes a constant."""
    if any(not isinstance(example, torch.Tensor) for example in example_inputs):
        raise TypeError("tvm takes tensors of fixed sizes only")
    if any(example.device.type == "cuda" for example in example_inputs):
        raise TypeError("tvm is asked for the CPU's code only")
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = list(output.args[0])
    made = made_in(results)
    if not made:
        return run_operators(graph)
    tvm: Any = importlib.import_module("tvm")  # not installed where we are built
    relax: Any = importlib.import_module("tvm.relax")
    importer: Any = importlib.import_module("tvm.relax.frontend.torch")
    with warnings.catch_warnings(), generators_kept():
        warnings.simplefilter("ignore")
        program = torch.export.export(exportable(graph, results), tuple(map(example_of, example_inputs)), strict=False)
        module = importer.from_exported_program(program, unwrap_unit_return_tuple=False)
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    positions = {node.name: at for at, node in enumerate(placeholders)}

    def call(*inputs: Any) -> tuple[Any, ...]:
        given = [tvm.runtime.from_dlpack(each.detach().contiguous()) for each in inputs]
        found = dict(zip(made, map(torch.from_dlpack, machine["main"](*given)), strict=True))
        return tuple(result_of(node, found, inputs, positions) for node in results)

    return call
