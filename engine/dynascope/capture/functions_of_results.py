"""`y.grad_fn`: autograd's function of a tensor.

    y.grad_fn is not None               known when the program is followed
    y.grad_fn.register_hook(seen)       of what a custom function handed on (`calls/hooks_of_functions.py`)
    return y, y.grad_fn                 read of the tensor when the graph has run, as its own operators: kernels are one function
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx

from dynascope.capture.reasons import TensorAttribute, UnrebuildableValue
from dynascope.capture.signals import Break
from dynascope.capture.values import TensorValue, Value


class FunctionOfResultValue(Value):
    """`made_by` is the node of a custom function that only handed the tensor on. The class of other functions is not known: meta kernels
    may come down to others than those of the device."""

    __slots__ = ("kind", "made_by", "tensor", "version")
    source = None

    def __init__(self, tensor: TensorValue, made_by: fx.Node | None, kind: type | None) -> None:
        self.tensor, self.made_by, self.kind = tensor, made_by, kind
        self.version = tensor.example._version

    @property
    def python_type(self) -> type:
        if self.kind is None:
            raise Break(TensorAttribute("grad_fn"))
        return self.kind


def parts(value: FunctionOfResultValue) -> Iterable[Value]:
    """What it is read of: the graph is told that somebody will see autograd's own function there."""
    if value.tensor.example._version != value.version:
        raise Break(UnrebuildableValue("the `grad_fn` that a tensor had before it was written"))
    if value.made_by is not None:
        value.made_by.meta["hooked"] = True
    elif value.tensor.object is None or value.version:
        value.tensor.node.meta["asked_for_history"] = True
    return (value.tensor,)


def are_one(left: FunctionOfResultValue, right: FunctionOfResultValue) -> bool:
    if left.tensor is right.tensor and left.version == right.version:
        return True
    if left.made_by is None and right.made_by is None:  # the device's kernels may come down to other functions
        raise Break(TensorAttribute("grad_fn"))
    return left.made_by is right.made_by


def may_be(other: Value) -> bool:
    """Whether something from outside is a function of autograd's, perhaps the very one that an input has."""
    return other.source is not None and hasattr(other.python_type, "next_functions")


def function_of(tensor: torch.Tensor) -> object:
    return tensor.grad_fn
