"""`x.note = v`: what the program puts beside a tensor, read as that from then on, and put there when the graph has run.

    z = x + 1
    z.note = "first"       ->  an effect: z has it when it leaves
    x.mask = y; x * x.mask ->  x * y, and an effect

Names that the class has mean something to torch, and are none of these; nor are those that say what varies (`_dynamo_...`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynascope.capture.protocols.classes import MISSING, lookup
from dynascope.capture.reasons import AliasedMutation, UnsupportedAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import DELETED, ConstantValue, TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def put(machine: Machine, tensor: TensorValue, name: str, item: Value) -> None:
    check_name(tensor, name)
    check_unknown(machine, tensor, name)
    machine.journal.set_item(machine.beside_tensors, (tensor, name), item)
    machine.journal.append(machine.said, (setattr, (tensor, ConstantValue(name), item)))


def remove(machine: Machine, tensor: TensorValue, name: str) -> None:
    """It is there, as `get` or a guard has said."""
    check_name(tensor, name)
    check_unknown(machine, tensor, name)
    machine.journal.set_item(machine.beside_tensors, (tensor, name), DELETED)
    machine.journal.append(machine.said, (delattr, (tensor, ConstantValue(name))))


def get(machine: Machine, tensor: TensorValue, name: str) -> Value | None:
    """What the program has put there, `DELETED` where it took it away; None where it has done neither."""
    return machine.beside_tensors.get((tensor, name))


def are_written(machine: Machine, tensor: TensorValue) -> bool:
    return any(known is tensor for known, _ in machine.beside_tensors)


def check_unwritten(machine: Machine, tensor: TensorValue, name: str) -> None:
    """The tensor's own dictionary, which a break has given (`vars(x)`), may have been written by itself."""
    if tensor.object is not None and hasattr(tensor.object, "__dict__"):
        machine.outside.check_unwritten(vars(tensor.object), f"{tensor.source.expression()}.{name}")


def check_unknown(machine: Machine, tensor: TensorValue, name: str) -> None:
    """What is put beside the tensor is not in that dictionary before the graph has run."""
    known = machine.outside.by_identity.get(id(getattr(tensor.object, "__dict__", None)))
    if tensor.object is not None and known is not None and known.source is not None:
        raise Break(AliasedMutation(f"{tensor.source.expression()}.{name}", known.source.expression()))


def check_name(tensor: TensorValue, name: str) -> None:
    cls = tensor.python_type
    is_plain = lookup(cls, "__setattr__") is object.__setattr__ and lookup(cls, "__delattr__") is object.__delattr__
    if tensor.instance is not None or not is_plain or lookup(cls, name) is not MISSING or name.startswith("_dynamo"):
        raise Break(UnsupportedAttribute(cls.__name__, name))
