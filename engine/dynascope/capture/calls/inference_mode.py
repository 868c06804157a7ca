"""`with torch.inference_mode():` inside, where what is made within it is all that leaves the graph.

    with torch.inference_mode():
        return model(x).argmax(-1)      the graph runs in inference mode: its results are inference tensors, as eager's are

Where the graph would have to end within it, or gives back what was made outside, it is captured again and ends before it: what
comes then begins in inference mode.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.torch_state import change
from dynascope.capture.histories import storage_of
from dynascope.capture.protocols import attributes
from dynascope.capture.reasons import ForeignCall, UnsupportedAttribute
from dynascope.capture.signals import Break, CaptureAgain
from dynascope.capture.values import NONE, ConstantValue, MethodValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

Guard = torch._C._InferenceMode


class GuardValue(Value):
    """What `torch.inference_mode` enters: made inside, and nothing outside could stand for it."""

    __slots__ = ()
    source = None
    python_type = Guard


def attribute(machine: Machine, value: Value, name: str) -> Value:
    if name not in METHODS:
        raise Break(UnsupportedAttribute("_InferenceMode", name))
    return MethodValue(ConstantValue(METHODS[name]), value)


METHODS = {name: Guard.__dict__[name].__func__ for name in ("__enter__", "__exit__")}
attributes.READERS[GuardValue] = attribute


class Entered:
    """A mode that a capture is in, for real: what it computes asks for that."""

    def __init__(self) -> None:
        self.guard: Any = None

    def enter(self) -> None:
        self.guard = Guard(True)
        self.guard.__enter__()

    def leave(self) -> None:
        if self.guard is not None:
            self.guard.__exit__(None, None, None)
            self.guard = None


@meaning(Guard)
def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    wanted = machine.object_of(arguments[0]) if len(arguments) == 1 and not keywords else None
    if wanted is not True or not machine.options.follows_inference:
        raise Break(ForeignCall("torch.inference_mode", "what it makes could not leave the graph as eager makes it"))
    return GuardValue()


@meaning(METHODS["__enter__"])
def enter(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    guard, records = arguments[0], torch.is_grad_enabled()
    if records:
        change(machine, torch._C._set_grad_enabled, (False,), lambda: torch._C._set_grad_enabled(True))
    mode = Entered()
    mode.enter()
    machine.journal.record(mode.leave)
    machine.journal.set_item(machine.inference_modes, guard, (mode, records))
    return NONE


@meaning(METHODS["__exit__"])
def leave(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    mode, records = machine.inference_modes[arguments[0]]
    mode.leave()
    machine.journal.record(mode.enter)
    if records:
        change(machine, torch._C._set_grad_enabled, (True,), lambda: torch._C._set_grad_enabled(False))
    return NONE


def leave_all(machine: Machine) -> None:
    """At the end of a capture, whatever ended it."""
    for mode, _ in reversed(machine.inference_modes.values()):
        mode.leave()


def check_left(machine: Machine) -> None:
    """A graph that ends within it is captured again, and ends before it."""
    if any(mode.guard is not None for mode, _ in machine.inference_modes.values()):
        raise CaptureAgain(follows_inference=False)


def runs_in_inference_mode(machine: Machine, outputs: Iterable[fx.Node]) -> bool:
    """Whether the graph is to be called in inference mode. Captures again, without it, where that would show."""
    if not machine.inference_modes or machine.begins_in_inference:
        return False
    graph = machine.graph
    made = [node for node in graph.graph.nodes if node.op not in ("placeholder", "get_attr") and node not in graph.setters]
    outside = [node for node in made if "in_inference" not in node.meta]
    storages = {storage_of(node) for node in outside} - {None}
    leaving = {*outputs, *graph.kept} - graph.setters
    shows = any(node in leaving or requires_grad(node) for node in outside)
    if shows or any(storage_of(node) in storages for node in leaving):
        raise CaptureAgain(follows_inference=False)
    return True


def requires_grad(node: fx.Node) -> bool:
    example = node.meta.get("example_value")
    return isinstance(example, torch.Tensor) and example.requires_grad
