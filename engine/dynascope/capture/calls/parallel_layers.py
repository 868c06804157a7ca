"""Layers whose weights are DTensors: one node, of which the recording of both passes sees this rank's work and the collectives.

    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    self.down(torch.relu(self.up(x)))      up's products, relu, down's products, all_reduce: one graph

The node calls the layer with its hooks, which are torch's own, on DTensors around plain tensors: below autograd a DTensor becomes its
parts and collectives, for meta tensors as for others. A graph's inputs are the parts (`LocalPartSource`), so that gradients reach
the weights as DTensors. What is not so plain (other hooks, a result that stays a DTensor, a gradient that is placed otherwise than its
weight) is left to Python at the call.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.tensors import Operation
from dynascope.capture.protocols import attributes
from dynascope.capture.signals import Break
from dynascope.capture.values import FunctionValue, InstanceValue, TensorValue, Value
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
    parts: tuple[tuple[str, Part | None], ...]
    """By the weights' names; None of one that the layer does not have."""
    gradients: tuple[Any, ...] = ()
    """How the gradients of those that it has are placed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", f"parallel_{self.cls.__name__}".lower())
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, given: torch.Tensor, *parts: torch.Tensor) -> Any:
        remaining = iter(zip(parts, self.gradients, strict=True))
        return self.called(given, {name: None if part is None else _around(*next(remaining), part) for name, part in self.parts})

    def called(self, given: torch.Tensor, weights: dict[str, Any]) -> Any:
        layer = object.__new__(self.cls)
        vars(layer).update(self.own, _parameters=weights, _buffers={}, _modules={})
        return layer(given)


def _around(part: torch.Tensor, placements: Any, facts: Part) -> Any:
    """A DTensor of which this rank has `part`; nobody is asked whether the other ranks have theirs. `placements` are its gradient's."""
    spec, told = facts.specification, {} if placements is None else {"grad_placements": placements}
    sizes, strides = spec.tensor_meta.shape, spec.tensor_meta.stride
    return _dtensor().from_local(part, spec.mesh, spec.placements, run_check=False, shape=sizes, stride=strides, **told)


def _dtensor() -> Any:
    """Loaded wherever there is one."""
    return sys.modules["torch.distributed.tensor"].DTensor  # type: ignore[attr-defined]


def call(machine: Machine, module: InstanceValue, arguments: list[Value], keywords: dict[str, Value]) -> Value | None:
    """None where the call is not for a graph to take."""
    if not _is_plain(machine, module) or keywords or len(arguments) != 1:
        return None
    given = machine.realize(arguments[0])
    if not isinstance(given, TensorValue) or torch.is_autocast_enabled(given.device.type):
        return None
    object, known = module.object, ParallelLayerIs.of(module.object)
    if any(part is None and issubclass(kind, torch.Tensor) for _, kind, part in known.weights):
        return None
    own = {name: value for name, value in vars(object).items() if name not in ("_parameters", "_buffers", "_modules")}
    layer = ParallelLayer(known.cls, own, tuple((name, part) for name, _, part in known.weights))
    gradients = machine.in_plain_mode(lambda: _gradients(layer, given.example))
    if gradients is None:
        return None
    layer = replace(layer, gradients=gradients)
    machine.guards.add(module.source, known)
    places = [ModuleMemberSource(module.source, "_parameters", name) for name, part in layer.parts if part is not None]
    parts = [machine.outside.part_of(place, of_gradient) for place, of_gradient in zip(places, gradients, strict=True)]
    return Layer(machine, "call_function", layer, layer.__name__, [given, *parts], {}).run()


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
        and all(type(weight) is _dtensor() for weight in weights)
        and own.get("max_norm") is None  # an embedding that writes to its weight
    )


def _is_hook_of_torch(hook: Any) -> bool:
    """One that `distribute_module` puts around a function of a parallel style of torch's."""
    if not getattr(hook, "__module__", "").startswith(OF_TORCH):
        return False
    held = [cell.cell_contents for cell in hook.__closure__ or ()]
    functions = [getattr(each, "func", each) for each in held if callable(each)]
    return bool(functions) and all((getattr(each, "__module__", None) or "").startswith(OF_TORCH) for each in functions)


def _gradients(layer: ParallelLayer, given: torch.Tensor) -> tuple[Any, ...] | None:
    """How gradients of the weights are placed, each None where that is as the weight itself. None where the result is no plain tensor, or
    torch does not take the placements. Asked on meta tensors: no rank waits."""
    parts = [(name, part) for name, part in layer.parts if part is not None]
    with torch.enable_grad(), without_messages():
        weights = {name: _leaf(part) for name, part in parts}
        result = layer.called(given.detach().requires_grad_(given.is_floating_point()), dict.fromkeys(dict(layer.parts)) | weights)
        if type(result) is not torch.Tensor:
            return None
        leaves = [weight for weight in weights.values() if weight.requires_grad]
        found = torch.autograd.grad(result, leaves, torch.empty_like(result), allow_unused=True) if leaves and result.requires_grad else ()
    if any(each is not None and each.to_local().shape != leaf.to_local().shape for leaf, each in zip(leaves, found, strict=False)):
        return None  # an embedding's gradient is whole on each rank, and autograd refuses it for a part
    placed = {id(leaf): gradient.placements for leaf, gradient in zip(leaves, found, strict=False) if gradient is not None}
    placements = [placed.get(id(weight), weight.placements) for weight in weights.values()]
    gradients = tuple(None if at == weight.placements else at for at, weight in zip(placements, weights.values(), strict=True))
    return gradients if not any(gradients) or "grad_placements" in inspect.signature(_dtensor().from_local).parameters else None


def _leaf(part: Part) -> Any:
    stand_in = torch.empty_strided(part.sizes, part.strides, dtype=part.dtype, device="meta")
    return _around(stand_in, None, part).detach().requires_grad_(part.requires_grad)


class Layer(Operation):
    """Its call, on its way to being a node."""

    def refuse_types(self) -> None:
        """The library looks."""

    def run_on_meta(self) -> Any:
        try:
            with without_messages():
                return self.machine.in_plain_mode(lambda: self.target(*self.examples))
        except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError) as error:
            raise Break(self.failure(error)) from None

    def has_effect(self) -> bool:
        """The other ranks wait for its collectives, also where nobody reads the result."""
        return True
