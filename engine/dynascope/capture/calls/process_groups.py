"""Process groups and their collectives: a group is an object that does not change, `dist.all_reduce(x)` an operator.

    dist.get_rank()                      a constant, while the group is the same object
    funcol.all_reduce(x, "sum", group)   all_reduce and wait_tensor of torch's own library of collectives
    dist.all_reduce(x)                   the same, and a copy into `x`: torch's own table says what stands for what

Where autograd records, an in-place collective is left to Python: eager's gradient goes past it. So is one whose result comes later
(`async_op`), and one that eager refuses.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.expressions import callee
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    ListValue,
    NotConstant,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.dataclass import dataclass
from dynascope.guards.state_calls import CallReturns

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

IN_PLACE = ("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_single", "all_to_all_single")
IN_PLACE += ("reduce_scatter_tensor", "reduce_scatter_single")
QUESTIONS = frozenset({"rank", "size", "name"})
"""Methods of groups whose answers stay what they are."""


def answer(name: str, machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a group, to a question whose answer stays for as long as it lives."""
    group = constant_of(machine.known(arguments[0]))
    if type(group) is not dist.ProcessGroup:
        raise Break(ForeignCall(f"ProcessGroup.{name}"))
    return ConstantValue(getattr(group, name)())


def collective_in_place(target: Any, machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """As the functional collective that torch has for it, and a copy."""
    functional: Any = importlib.import_module("torch.distributed._functional_collectives")
    given = inspect.signature(target).bind(*arguments, **keywords).arguments
    operation = constant_of(machine.known(given["op"])) if "op" in given else dist.ReduceOp.SUM
    function = functional.traceable_collective_remaps.get(target)
    why = _obstacle(machine, given)
    if function is None or type(operation) is NotConstant or operation not in functional.REDUCE_OP_TO_STR:
        why = "it has no functional form"
    if why is not None:
        raise Break(ForeignCall(callee(machine.expression()) or target.__name__, why))
    if "op" in inspect.signature(target).parameters:
        given["op"] = ConstantValue(functional.REDUCE_OP_TO_STR[operation])
    machine.call_now(machine.outside.fixed(function, function.__name__), [], dict(given))
    return NONE


def _obstacle(machine: Machine, given: dict[str, Value]) -> str | None:
    values = {name: machine.realize(value) for name, value in given.items()}
    if "async_op" in values and constant_of(values["async_op"]) is not False:
        return "its result comes later"
    group = constant_of(values.get("group", NONE))
    if group is None:
        group = dist.group.WORLD
    if type(group) is not dist.ProcessGroup or dist.get_rank(group) < 0:
        return "this process is not in the group"
    for tensor in _tensors(machine, values.values()):
        example = tensor.example
        if example.requires_grad:
            return "gradients are recorded, and eager's go past what it writes in place"
        if example.is_complex() or not example.is_contiguous():
            return "its tensor is not contiguous" if not example.is_complex() else "its tensor is complex"
    return None


def _tensors(machine: Machine, values: Any) -> Iterator[TensorValue]:
    for value in map(machine.realize, values):
        if isinstance(value, (ListValue, TupleValue)):
            yield from _tensors(machine, value.items)
        elif isinstance(value, TensorValue):
            yield value


@dataclass(frozen=True)
class SizeOfGroup:
    """Asks a process group by its name for its size, as a guard does."""

    name: str
    __name__ = "size of the process group"

    def __call__(self) -> int | None:
        try:
            return distributed_c10d._resolve_process_group(self.name).size()
        except RuntimeError:
            return None


def group_size(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a group by its name, which functional collectives know it by."""
    group = constant_of(machine.known([*arguments, *keywords.values()][0]))
    if type(group) is NotConstant or not isinstance(group, (str, dist.ProcessGroup)):
        raise Break(ForeignCall("_get_group_size_by_name"))
    try:
        size = distributed_c10d._get_group_size_by_name(group)
    except RuntimeError as error:
        raise machine.throw(RuntimeError, *error.args) from None
    if isinstance(group, str):
        machine.guards.add_state(CallReturns(SizeOfGroup(group), size))
    return ConstantValue(size)


IS_THERE = torch.distributed.is_available()
if IS_THERE:
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    for name in QUESTIONS:
        if (method := getattr(dist.ProcessGroup, name)).__hash__ is not None:  # until torch 2.11 one cannot be told from another
            meaning(method)(functools.partial(answer, name))
    meaning(distributed_c10d._get_group_size_by_name)(group_size)
    for name in IN_PLACE:
        if (collective := getattr(dist, name, None)) is not None:
            meaning(collective)(functools.partial(collective_in_place, collective))
