"""Attributes of tensors: metadata is known now, `.T` and its like are operations.

    attribute(machine, x, "shape")
"""

from __future__ import annotations

import types
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.capture.calls import hooks_of_functions
from dynascope.capture.calls.tensor_metadata import is_dense, number_values
from dynascope.capture.calls.tensor_names import METADATA_ATTRIBUTES, VIEW_ATTRIBUTES
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.metadata import can_require_grad
from dynascope.capture.protocols import attributes_of_tensors, gradient_requirements, gradients, tensor_data
from dynascope.capture.protocols.classes import MISSING, lookup
from dynascope.capture.reasons import TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import DELETED, NONE, ConstantValue, MethodValue, TensorValue, Value, boolean
from dynascope.guards.tensor_guard import LeafIs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


DEVICES = frozenset({"is_cuda", "is_cpu", "is_mps", "is_meta", "is_xpu"})


def attribute(machine: Machine, value: TensorValue, name: str) -> Any:
    try:
        return known_attribute(machine, value, name)
    except RuntimeError:  # autograd refuses to look at a view of several that was written through another one
        raise Break(TensorAttribute(name)) from None


def known_attribute(machine: Machine, value: TensorValue, name: str) -> Any:
    entry = lookup(value.python_type, name)
    if name in ("shape", "nbytes") and machine.extents.vary:
        now = getattr(value.example, name)
        return number_values(machine, machine.extents.ask(value, lambda example: getattr(example, name)), now)
    if name in OF_HISTORY and may_have_history(machine, value):
        raise Break(TensorAttribute(name))
    if name == gradient_requirements.NAME:
        return boolean(gradient_requirements.requires_grad(machine, value))
    if name in METADATA_ATTRIBUTES and hasattr(value.example, name):
        from dynascope.capture.calls.pure import value_of

        if name == "is_leaf":
            guard_leaf(machine, value)
        return value_of(getattr(value.example, name))
    if name == "grad":
        return gradients.read(machine, value)
    if name == "grad_fn" and value.example.grad_fn is None:
        guard_leaf(machine, value)
        return NONE
    if name == "grad_fn":
        guard_leaf(machine, value)
        return hooks_of_functions.function_of_result(machine, value)
    if name == "device":
        return ConstantValue(value.device)
    if name in DEVICES:
        return ConstantValue(value.device.type == name.removeprefix("is_"))
    if name in OF_A_LEAF and value.example.grad_fn is None:
        guard_leaf(machine, value)
        return ConstantValue(OF_A_LEAF[name])
    if name in KINDS_OF_MEMORY and is_dense(value):
        return ConstantValue(getattr(torch.empty(0, dtype=value.example.dtype), name))
    if name == "__module__":
        return ConstantValue(value.python_type.__module__)
    if name in ("T", "H") and value.example.dim() != 2:
        # torch warns, or refuses: in its own words, about the program's own line.
        raise Break(TensorAttribute(name))
    if name in VIEW_ATTRIBUTES:
        method, arguments = VIEW_ATTRIBUTES[name]
        constants = [ConstantValue(argument) for argument in arguments(value.example)]
        result = apply_method(machine, getattr(torch.Tensor, method), [value, *constants], {})
        return tensor_data.counting_alone(machine, result) if name == "data" else result
    if name == "_version":
        return version(machine, value)
    if name in ("real", "imag"):
        return apply_function(machine, getattr(torch, name), [value], {})
    if name == "__class__":
        return ConstantValue(value.python_type)
    attributes_of_tensors.check_unwritten(machine, value, name)
    if entry is MISSING or (callable(entry) and name in getattr(value.object, "__dict__", ())):  # it hides the method
        return other_attribute(machine, value, name)
    if isinstance(entry, types.FunctionType) and entry.__module__ == torch.nn.parameter.__name__:
        return MethodValue(machine.outside.fixed(entry, name), value)
    if callable(entry):
        return MethodValue(ConstantValue(entry), value)
    raise Break(TensorAttribute(name))


OF_A_LEAF = {"output_nr": 0, "retains_grad": False}
ASKED_OTHERWISE = METADATA_ATTRIBUTES | DEVICES
KINDS_OF_MEMORY = frozenset(
    name
    for name in dir(torch.Tensor)
    if name.startswith("is_") and not callable(getattr(torch.Tensor, name)) and name not in ASKED_OTHERWISE
) | {"name"}
"""What no dense tensor on a processor or a GPU is, whatever it holds: `is_mkldnn`, `is_sparse_csr`, `is_xla`. Nor has it a name."""
OF_HISTORY = frozenset([gradient_requirements.NAME, "is_leaf", "grad_fn", *OF_A_LEAF])


def may_have_history(machine: Machine, value: TensorValue) -> bool:
    """Whether a tensor of a backward pass has one depends on whether that pass is differentiated."""
    is_made = value.object is None and not value.example.requires_grad
    return bool(machine.backward_passes) and is_made and can_require_grad(value.example)


def version(machine: Machine, value: TensorValue) -> Value:
    """How often a tensor made inside was written: what stands for it is written as often, but through `.data`."""
    inputs = {each.example.untyped_storage()._cdata for each in machine.outside.by_identity.values() if isinstance(each, TensorValue)}
    storage = value.example.untyped_storage()._cdata
    through_data = any(node.target is getattr for node in machine.graph.graph.nodes)
    unknown = any(map(partial(is_counted_otherwise, storage=storage), machine.graph.graph.nodes))
    if through_data or unknown or torch.is_inference_mode_enabled() or storage in inputs:
        raise Break(TensorAttribute("_version"))
    if machine.extents.vary and name_of(value.node) in VIEW_OR_COPY:
        raise Break(TensorAttribute("_version"))
    return ConstantValue(value.example._version)


COUNTED_OTHERWISE = frozenset(["one_hot", "matrix_rank", "linear_cross_entropy"])
"""Torch takes another way for meta tensors, which writes its result more or less often: found over its operator database."""
VIEW_OR_COPY = frozenset(["reshape", "reshape_as", "flatten", "ravel", "contiguous", "view_as", "unflatten"])
"""Sizes say which, and a view counts with its base."""


def name_of(node: fx.Node) -> str:
    return getattr(node.target, "__name__", str(node.target)).removeprefix("linalg_")


def is_counted_otherwise(node: fx.Node, storage: int) -> bool:
    example = node.meta.get("example_value")
    return (
        name_of(node) in COUNTED_OTHERWISE
        and isinstance(example, torch.Tensor)
        and example.untyped_storage()._cdata == storage
    )


def guard_leaf(machine: Machine, value: TensorValue) -> None:
    """What requires no grad is a leaf always."""
    if value.object is not None and value.object.requires_grad:
        machine.guards.add(value.source, LeafIs(value.object.is_leaf))


def other_attribute(machine: Machine, value: TensorValue, name: str) -> Any:
    from dynascope.capture.protocols.presence import found_at, is_absent
    from dynascope.guards.source import AttributeSource

    if (known := attributes_of_tensors.get(machine, value, name)) is not None:
        if known is DELETED:
            raise machine.throw(AttributeError, f"{value.python_type.__name__!r} object has no attribute {name!r}")
        return known
    if value.object is not None and name in getattr(value.object, "__dict__", {}):
        return found_at(machine, getattr(value.object, name), AttributeSource(value.source, name))
    is_absent(machine, value, name)
    raise machine.throw(AttributeError, f"{value.python_type.__name__!r} object has no attribute {name!r}")
