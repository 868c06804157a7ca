"""Classes of tensors whose metaclass looks at the instance: `isinstance(t, nn.Buffer)` asks for an attribute of the tensor.

is_instance(machine, tensor, torch.nn.Buffer)      by its class, or by `tensor._is_buffer`, with a guard
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynascope.capture.protocols import attributes_of_tensors
from dynascope.capture.protocols.presence import is_absent
from dynascope.capture.values import DELETED, TensorValue
from dynascope.guards.source import AttributeSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

FLAGS: dict[object, str] = {torch.nn.Parameter: "_is_param", torch.nn.parameter.Buffer: "_is_buffer"}


def is_instance(machine: Machine, tensor: TensorValue, cls: type) -> bool:
    return issubclass(tensor.python_type, cls) or is_flagged(machine, tensor, FLAGS[cls])


def is_flagged(machine: Machine, tensor: TensorValue, name: str) -> bool:
    """What is made inside has such an attribute where the program has put it there."""
    known = attributes_of_tensors.get(machine, tensor, name)
    if known is not None:
        return known is not DELETED and bool(machine.object_of(machine.realize(known)))
    if tensor.object is None:
        return False
    if name not in getattr(tensor.object, "__dict__", {}):
        is_absent(machine, tensor, name)
        return False
    return bool(machine.object_of(machine.outside.realize(tensor.object.__dict__[name], AttributeSource(tensor.source, name))))
