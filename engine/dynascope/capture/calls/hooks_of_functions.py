"""Hooks on autograd's function of a result, where that is a custom function that only hands tensors on: what `nn.Module` does for
`register_full_backward_hook`.

    y, = BackwardHookFunction.apply(x); y.grad_fn.register_hook(seen)      the node runs by itself between parts of kernels, for autograd
                                                                          to find it; the hook is put there after the graph

So it is called with the gradients that come to that function and leave it, as in eager. Of other functions there is none in a graph of
kernels, which is one node to autograd: who asks more of such a function than whether it is there ends the graph, which then runs
operator by operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.autograd_functions import CustomFunction, register_on_function, register_on_function_before
from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.hooks_of_tensors import HandleValue, do_afterwards
from dynascope.capture.calls.registry import meaning
from dynascope.capture.functions_of_results import FunctionOfResultValue
from dynascope.capture.protocols.classes import MISSING, lookup
from dynascope.capture.reasons import ForeignValue, TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

Function = torch._C._FunctionBase


def function_of_result(machine: Machine, tensor: TensorValue) -> Value:
    """Of a tensor that came from a function."""
    if tensor.instance is not None or machine.backward_passes or is_in_transform(machine):
        raise Break(TensorAttribute("grad_fn"))
    node = called(tensor.node)
    function = node.target if tensor.object is None and isinstance(node.target, CustomFunction) else None
    kind = None if function is None or function.hands_on is None else function.node_class()
    if kind is None or type(tensor.example.grad_fn).__name__ != kind.__name__:  # or something was done to the tensor since
        return FunctionOfResultValue(tensor, None, None)
    known = machine.functions_of_results.get(node)
    if known is None:
        known = FunctionOfResultValue(tensor, node, kind)
        machine.journal.set_item(machine.functions_of_results, node, known)
    return known


def is_in_transform(machine: Machine) -> bool:
    """Which gives what stands for its rows histories of their own."""
    return any("stands_in" in node.meta and not machine.graph.is_left_out(node) for node in machine.graph.graph.nodes)


def called(node: fx.Node) -> fx.Node:
    """What gave it, of an operator that gives several."""
    return node.args[0] if node.target is operator.getitem else node  # type: ignore[return-value]


@meaning(Function.name)
def name(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ConstantValue(function_given(machine, arguments).python_type.__name__)


@meaning(Function.register_hook)
def register_hook(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return hooked(machine, register_on_function, arguments, keywords)


@meaning(Function.register_prehook)
def register_prehook(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return hooked(machine, register_on_function_before, arguments, keywords)


def hooked(machine: Machine, register: Callable[..., Any], arguments: Arguments, keywords: Keywords) -> Value:
    function, hook = function_given(machine, arguments), argument(arguments, keywords, 1, "hook")
    if keywords or lookup(machine.realize(hook).python_type, "__call__") is MISSING:
        raise Break(ForeignValue(function.python_type.__name__, machine.expression()))
    assert function.made_by is not None
    machine.journal.set_item(function.made_by.meta, "hooked", True)
    do_afterwards(machine, register, function.tensor, hook)
    return HandleValue()


def function_given(machine: Machine, arguments: Arguments) -> FunctionOfResultValue:
    function = machine.realize(arguments[0])
    if not isinstance(function, FunctionOfResultValue):
        raise Break(ForeignValue(function.python_type.__name__, machine.expression()))
    return function
