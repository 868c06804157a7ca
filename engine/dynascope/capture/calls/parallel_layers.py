"""Layers whose weights are DTensors: one node, of which the recording of both passes sees this rank's work and the collectives.

    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    self.down(torch.relu(self.up(x)))      up's products, relu, down's products, all_reduce: one graph

The node calls the layer with its hooks, which are torch's own, on DTensors around parts that are the graph's inputs, so that gradients
reach the weights as DTensors. What goes in and comes out may be one too (`distributed_tensors`). What is not so plain (other hooks) is left
to Python at the call.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from dynascope.autograd_functions.distributed_parts import Border, Placements, as_gradient, distributed
from dynascope.capture.calls.distributed_tensors import DistributedOperation, parts_from_outside, there
from dynascope.capture.distributed_values import DistributedValue, is_distributed
from dynascope.capture.protocols import attributes
from dynascope.capture.values import FunctionValue, InstanceValue, TensorValue, Value
from dynascope.dataclass import dataclass
from dynascope.guards.guard import MODULE_HOOKS
from dynascope.guards.parallel_layer import ParallelLayerIs, Part
from dynascope.guards.source import ModuleMemberSource
from dynascope.meta_kernels.quiet_torch import without_messages

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

LAYERS = (torch.nn.Linear, torch.nn.Embedding, torch.nn.LayerNorm)
"""What `forward` of these reads are weights and numbers, and it writes nothing."""
OF_TORCH = ("torch.distributed.tensor.", "torch.distributed.tensor.parallel.")
MORE_HOOKS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")


@dataclass(frozen=True, eq=False)
class ParallelLayer:
    """The layer without its weights, to be called with this rank's input and parts of the weights."""

    cls: type
    own: dict[str, Any]
    weights: tuple[tuple[str, Border | None], ...]
    """By their names; None of one that the layer does not have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", f"parallel_{self.cls.__name__}".lower())
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, given: torch.Tensor, *parts: torch.Tensor) -> Any:
        left, weights = iter(parts), self.weights
        return self.called(given, {name: border and border(*itertools.islice(left, len(border.ways))) for name, border in weights})

    def called(self, given: torch.Tensor, weights: dict[str, Any]) -> Any:
        layer = object.__new__(self.cls)
        vars(layer).update(self.own, _parameters=weights, _buffers={}, _modules={})
        return there(layer(given))


def call(machine: Machine, module: InstanceValue, arguments: list[Value], keywords: dict[str, Value]) -> Value | None:
    """None where the call is not for a graph to take."""
    if not _is_plain(machine, module) or keywords or len(arguments) != 1:
        return None
    given = machine.realize(arguments[0])
    tensor = given.tensor if isinstance(given, DistributedValue) else given
    if not isinstance(tensor, TensorValue):
        return None
    object, known = module.object, ParallelLayerIs.of(module.object)
    if any(part is None and issubclass(kind, torch.Tensor) for _, kind, part in known.weights):
        return None
    own = {name: value for name, value in vars(object).items() if name not in ("_parameters", "_buffers", "_modules")}
    parts = {name: part for name, _, part in known.weights if part is not None}
    layer = ParallelLayer(known.cls, own, tuple((name, None) for name, _, _ in known.weights))
    ways = machine.in_plain_mode(lambda: _ways(layer, tensor.example, parts))
    borders = {name: Border(part.specification, ways[name]) for name, part in parts.items()}
    layer = replace(layer, weights=tuple((name, borders.get(name)) for name, _, _ in known.weights))
    machine.guards.add(module.source, known)
    places = {name: ModuleMemberSource(module.source, "_parameters", name) for name in borders}
    inputs = [part for name, border in borders.items() for part in parts_from_outside(machine, border, places[name])]
    return DistributedOperation(machine, "call_function", layer, layer.__name__, [given, *inputs], {}).run()


def _ways(layer: ParallelLayer, given: torch.Tensor, parts: dict[str, Part]) -> dict[str, tuple[Placements, ...]]:
    """How the gradients of the weights are placed where that of the result is placed as the result. Asked on meta tensors: no rank
    waits. What is placed otherwise when it comes is placed as its weight."""
    ways = {name: (as_gradient(part.specification.placements),) for name, part in parts.items()}
    if not torch.is_grad_enabled():
        return ways
    with without_messages():
        weights = {name: _leaf(part) for name, part in parts.items()}
        result = layer.called(given.detach().requires_grad_(given.is_floating_point()), dict.fromkeys(dict(layer.weights)) | weights)
        leaves = {name: weight for name, weight in weights.items() if weight.requires_grad}
        if not leaves or not result.requires_grad:
            return ways
        found = torch.autograd.grad(result, list(leaves.values()), torch.empty_like(result), allow_unused=True)
    placed = {name: gradient.placements for name, gradient in zip(leaves, found, strict=True) if gradient is not None}
    return {name: tuple(dict.fromkeys((*own, placed.get(name, own[0])))) for name, own in ways.items()}


def _leaf(part: Part) -> Any:
    stand_in = torch.empty_strided(part.sizes, part.strides, dtype=part.dtype, device="meta")
    return distributed(stand_in, part.specification).detach().requires_grad_(part.requires_grad)


def _is_plain(machine: Machine, module: InstanceValue) -> bool:
    """Of a class of torch's, with hooks of torch's, as it is outside."""
    object = module.object
    if type(object) not in LAYERS or module.attributes or module.source is None or "torch.distributed.tensor" not in sys.modules:
        return False
    own = vars(object)
    forward = attributes.get_now(machine, module, "forward")
    is_torchs = isinstance(getattr(forward, "function", None), FunctionValue) and forward.function.code is type(object).forward.__code__
    hooks = [hook for name in MODULE_HOOKS for hook in own[name].values()]
    weights = [weight for weight in own["_parameters"].values() if weight is not None]
    is_bare = not (own["_buffers"] or own["_modules"] or own["_backward_hooks"] or own["_backward_pre_hooks"])
    return (
        is_torchs
        and is_bare
        and not any(own.get(name) for name in MORE_HOOKS)
        and bool(hooks)
        and all(map(_is_hook_of_torch, hooks))
        and all(is_distributed(type(weight)) for weight in weights)
        and own.get("max_norm") is None  # an embedding that writes to its weight
    )


def _is_hook_of_torch(hook: Any) -> bool:
    """One that `distribute_module` puts around a function of a parallel style of torch's."""
    if not getattr(hook, "__module__", "").startswith(OF_TORCH):
        return False
    held = [cell.cell_contents for cell in hook.__closure__ or ()]
    functions = [getattr(each, "func", each) for each in held if callable(each)]
    return bool(functions) and all((getattr(each, "__module__", None) or "").startswith(OF_TORCH) for each in functions)
