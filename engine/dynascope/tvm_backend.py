"""The backend `tvm`: functional graphs through torch's exporter and TVM's Relax, compiled by LLVM for the CPU.

torch 2.13 has one for TVM's Relay, which TVM has no more; this one is made of what both have today. Sizes and numbers are fixed ones,
and gradients are ours. Operators that TVM's importer has nothing for run as torch's between its modules.
"""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.exported_graphs import Untranslated, compile_in_parts

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


UNKNOWN = re.compile(r"'([\w.]+)'")
_refused = {
    "aten._unsafe_index.Tensor",
    "aten._unsafe_index_put.default",
    "aten.embedding.default",
    "aten.embedding_dense_backward.default",
    "aten.gather.default",
    "aten.index.Tensor",
    "aten.index_put.default",
    "aten.index_select.default",
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter_add.default",
}
"""What looks up by index: of one that is too large torch says so, and TVM reads what lies there. And what its importer has turned out
not to know, in this process."""


def compile_with_tvm(graph: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., tuple[Any, ...]]:
    """Raises what the exporter or TVM raise; an int among the inputs is refused, so that it becomes a constant."""
    if any(not isinstance(example, torch.Tensor) for example in example_inputs):
        raise TypeError("tvm takes tensors of fixed sizes only")
    if any(example.device.type == "cuda" for example in example_inputs):
        raise TypeError("tvm is asked for the CPU's code only")
    return compile_in_parts(graph, example_inputs, _machine, _refused)


def _machine(module: fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
    tvm: Any = importlib.import_module("tvm")  # not installed where we are built
    relax: Any = importlib.import_module("tvm.relax")
    importer: Any = importlib.import_module("tvm.relax.frontend.torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, tuple(examples), strict=False)
        try:
            translated = importer.from_exported_program(program, unwrap_unit_return_tuple=False)
        except AssertionError as error:
            unknown = UNKNOWN.findall(str(error)) if "Unsupported function type" in str(error) else []
            raise Untranslated(frozenset(unknown)) if unknown else error from None
        machine = relax.VirtualMachine(tvm.compile(translated, target="llvm"), tvm.cpu())

    def call(*inputs: Any) -> list[torch.Tensor]:
        given = [tvm.runtime.from_dlpack(each.detach().contiguous()) for each in inputs]
        return [torch.from_dlpack(found) for found in machine["main"](*given)]

    return call
