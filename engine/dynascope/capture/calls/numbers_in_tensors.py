"""Numbers that vary and went through a tensor: what they are there is said in terms of them, so that nothing is read.

    n = torch.div(x.size(0), 2, rounding_mode="trunc") - 1       a tensor of no dimensions
    y = x.new_zeros((n + 1, 3)); range(n)                        x.size(0) // 2, x.size(0) // 2 - 1
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.capture.calls.arguments import Arguments
from dynascope.capture.calls.known_tensors import PYTHONS, known_number
from dynascope.capture.calls.unwritten import is_unwritten
from dynascope.capture.values import ListValue, SliceValue, TensorValue, TupleValue, Value
from dynascope.sizes import kind_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MOST = 2**62
"""Tensors of integers begin anew beyond twice this."""
OF_TWO: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
QUOTIENTS = frozenset({"div", "divide", "floor_divide"})
SAME = frozenset({"clone", "detach", "long", "contiguous"})


def held(machine: Machine, tensor: TensorValue) -> Value | None:
    """What `tensor.item()` gives, where that is a constant or follows from numbers that vary."""
    return known_number(machine, tensor) or varying_number(machine, tensor)


def varying_number(machine: Machine, tensor: TensorValue) -> Value | None:
    """What `tensor.item()` gives, where it is computed from numbers that vary and from constants alone."""
    if tensor.instance is not None or machine.assigned or not machine.extents.vary:
        return None
    found = number_at(tensor.node)
    return None if found is None else machine.sizes.value(found)


def number_at(node: Any) -> Any | None:
    """The number that a node's tensor holds; None where it is not known."""
    if not isinstance(node, fx.Node):
        return node if type(node) is int else None
    if "late" in node.meta or "stands_in" in node.meta:
        return None
    if "size" in node.meta:
        return node.meta["size"] if kind_of(node.meta["size"]) is int else None
    example = node.meta.get("example_value")
    is_number = isinstance(example, torch.Tensor) and example.dim() == 0 and example.dtype is torch.int64
    if not is_number or not is_unwritten(node) or node.op not in ("call_function", "call_method"):
        return None
    found = computed(node)
    return found if found is not None and -MOST <= found <= MOST else None


def computed(node: fx.Node) -> Any | None:
    name = node.target if isinstance(node.target, str) else PYTHONS.get(node.target) or getattr(node.target, "__name__", "")
    if name == "full":
        return number_at(node.args[1]) if len(node.args) == 2 and node.args[0] == () else None
    if name in SAME and len(node.args) == 1 and not node.kwargs:
        return number_at(node.args[0])
    if len(node.args) != 2 or not (name in QUOTIENTS or name in OF_TWO and not node.kwargs):
        return None
    one, other = map(number_at, node.args)
    if one is None or other is None:
        return None
    if name in OF_TWO:
        return OF_TWO[name](one, other)
    rounding = node.kwargs.get("rounding_mode") if name != "floor_divide" else "floor"
    is_floor = rounding == "floor" or (rounding == "trunc" and one >= 0)
    return one // other if is_floor and len(node.kwargs) <= 1 and other > 0 else None


# Where operators want numbers


def with_numbers(machine: Machine, values: Arguments) -> list[Value] | None:
    """The arguments with the numbers that tensors of integers hold; None where there are none."""
    given = [machine.realize(value) for value in values]
    found = [number_in(machine, value) for value in given]
    return found if any(one is not other for one, other in zip(found, given, strict=True)) else None


def number_in(machine: Machine, value: Value) -> Value:
    if isinstance(value, TensorValue):
        is_index = value.example.dim() == 0 and not value.example.dtype.is_floating_point
        return (held(machine, value) if is_index else None) or value
    if isinstance(value, SliceValue):
        given = tuple(map(machine.realize, value.parts))
        parts = tuple(number_in(machine, part) for part in given)
        return value if all(map(operator.is_, parts, given)) else SliceValue(parts)
    if isinstance(value, (ListValue, TupleValue)):
        given = tuple(map(machine.realize, value.items))
        parts = tuple(number_in(machine, part) for part in given)
        return value if all(map(operator.is_, parts, given)) else TupleValue(parts)
    return value
