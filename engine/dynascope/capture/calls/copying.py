"""How objects say what they are made of, for `copy` and `pickle`: `object.__reduce_ex__`, which is C. How tensors are copied."""

from __future__ import annotations

import collections
import copy
import copyreg
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.operands import tensors_in
from dynascope.capture.calls.pure import compute
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_method
from dynascope.capture.expressions import callee
from dynascope.capture.protocols import attributes, attributes_of_tensors, gradients
from dynascope.capture.protocols.classes import MISSING, has_python_method, is_like_plain, lookup
from dynascope.capture.protocols.contents import with_attributes
from dynascope.capture.protocols.iteration import elements, iterator
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    DictValue,
    InstanceValue,
    SetValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

ATOMS = (torch.dtype, torch.device)
"""Constants that say themselves what they are made of."""


@meaning(object.__reduce_ex__)
def reduce(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of an object with a dictionary: its class, and what is in the dictionary, or what its `__getstate__` gives."""
    value = machine.realize(arguments[0])
    if isinstance(value, ConstantValue) and type(value.value) in ATOMS and len(arguments) == 2:
        return compute(machine, type(value.value).__reduce_ex__, (value.value, machine.object_of(arguments[1])))
    if len(arguments) == 2 and isinstance(value, SetValue):
        items = machine.call_now(ConstantValue(list), [value])
        return TupleValue((ConstantValue(value.cls), TupleValue((items,)), NONE))
    if len(arguments) == 2 and isinstance(value, DictValue) and value.cls is collections.OrderedDict:
        return of_ordered(machine, value)
    if len(arguments) != 2 or machine.object_of(arguments[1]) < 2 or not isinstance(value, InstanceValue):
        raise cannot(machine)
    own = lookup(value.cls, "__reduce__")
    if has_python_method(value.cls, "__reduce__"):
        return machine.call_now(attributes.special(machine, value, "__reduce__"), [])
    if own is not object.__reduce__ or not is_plain(value):
        raise cannot(machine)
    if has_python_method(value.cls, "__getstate__"):
        content = machine.call_now(attributes.special(machine, value, "__getstate__"), [])
    else:
        content = attributes.get_now(machine, value, "__dict__")
    make = machine.outside.fixed(copyreg.__newobj__, "__newobj__")  # type: ignore[attr-defined]
    return TupleValue((make, TupleValue((attributes.get_now(machine, value, "__class__"),)), content, NONE, NONE))


def of_ordered(machine: Machine, value: DictValue) -> Value:
    """An empty one, what lies in the dictionary beside it (`state_dict()._metadata`), and its items."""
    held = attributes.get_now(machine, with_attributes(machine, value), "__dict__")
    state = held if elements(machine, held) else NONE
    items = iterator(machine, machine.call_now(attributes.special(machine, value, "items"), []))
    return TupleValue((ConstantValue(value.cls), TupleValue(()), state, NONE, items))


def is_plain(value: InstanceValue) -> bool:
    """Whether it is made of its class and its dictionary alone."""
    cls = value.cls
    has_own = any(lookup(cls, name) is not MISSING for name in ("__getnewargs_ex__", "__getnewargs__"))
    return not has_own and cls.__dictoffset__ != 0 and cls.__itemsize__ == 0 and is_like_plain(cls)


@meaning(torch.Tensor.__deepcopy__)
def deepcopy(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`copy.deepcopy` notes itself what it has copied. Tensors in one memory are copied to one memory, which a graph does not do."""
    tensor, *others = map(machine.realize, arguments)
    memo = others[0] if len(others) == 1 else None
    if keywords or not isinstance(tensor, TensorValue) or not isinstance(memo, DictValue) or machine.frames[-1].globals is not vars(copy):
        raise cannot(machine)
    storage = tensor.example.untyped_storage()._cdata
    if any(each.example.untyped_storage()._cdata == storage for each in tensors_in(item for _, item in memo.items.values())):
        raise cannot(machine)
    if attributes_of_tensors.are_written(machine, tensor):
        raise Break(ForeignCall(callee(machine.expression()) or "copy", "what the program put beside the tensor is copied with it"))
    if tensor.example.is_leaf and not is_none(machine.realize(gradients.read(machine, tensor))):
        raise Break(ForeignCall(callee(machine.expression()) or "copy", "its gradient is copied with it"))
    return apply_method(machine, torch.Tensor.__deepcopy__, [tensor, DictValue({})], {})


def cannot(machine: Machine) -> Break:
    return Break(ForeignCall(callee(machine.expression()) or "copy", "what the object is made of is known to C code alone"))


