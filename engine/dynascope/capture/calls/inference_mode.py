"""`with torch.inference_mode():` inside, also where a break or a part of the function lies in it or behind it.

    with torch.inference_mode():
        return model(x).argmax(-1)      the graph runs in inference mode: its results are inference tensors, as eager's are

Where something leaves the graph that was made outside, the graph runs outside, and what was made within becomes inference tensors
behind it. A mode that is still entered where the graph ends is entered as an effect, and left as one by the region that comes to the
end of the `with`. What eager refuses of inference tensors, and views that it tells apart, are for Python: then the graph is captured
again, and ends before the `with`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from dynascope.autograd_functions import HOLDS_GRAPH
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.histories import storage_of
from dynascope.capture.inference_calls import InferenceCall
from dynascope.capture.protocols import attributes
from dynascope.capture.protocols.gradient_requirements import RequirementValue
from dynascope.capture.reasons import ForeignCall, UnsupportedAttribute
from dynascope.capture.signals import Break, CaptureAgain
from dynascope.capture.torch_state import Call, TorchState
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    DataValue,
    InferenceModeValue,
    MethodValue,
    TensorValue,
    Value,
    boolean,
)
from dynascope.dataclass import dataclass
from dynascope.guards import inference_modes
from dynascope.guards.inference_modes import Around, EnteredIn, Mode

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def attribute(machine: Machine, value: Value, name: str) -> Value:
    if name not in METHODS:
        raise Break(UnsupportedAttribute("_InferenceMode", name))
    return MethodValue(ConstantValue(METHODS[name]), value)


METHODS = {name: Mode.__dict__[name].__func__ for name in ("__enter__", "__exit__")}
attributes.READERS[InferenceModeValue] = attribute


class Entered:
    """A mode that a capture is in, for real: what it computes asks for that."""

    def __init__(self, inference: bool) -> None:
        self.inference = inference
        self.enter()

    def enter(self) -> None:
        self.mode = Mode(self.inference)

    def leave(self) -> None:
        self.mode.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class Step:
    """A mode of the program's was entered or left. For one from outside, which cannot be entered again, another one stands that leads
    out of it."""

    value: Value
    entered: Entered
    enters: bool
    before: TorchState
    after: TorchState

    def take_back(self) -> None:
        if self.enters or self.value.source is not None:
            self.entered.leave()
            return
        self.after.restore()  # it will put back what it finds
        self.entered.enter()
        self.before.restore()


@meaning(Mode)
def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    wanted = machine.object_of(arguments[0]) if len(arguments) == 1 and not keywords else None
    if type(wanted) is not bool or not machine.options.follows_inference:
        raise Break(ForeignCall("torch.inference_mode", "what it makes could not leave the graph as eager makes it"))
    value, before = InferenceModeValue(), TorchState.now()
    follow(machine, Step(value, Entered(wanted), True, before, TorchState.now()))
    return value


@meaning(METHODS["__enter__"])
def enter(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """It is entered already. What this gives nobody has read."""
    if not isinstance(machine.realize(arguments[0]), InferenceModeValue):
        raise Break(ForeignCall("__enter__"))
    return NONE


@meaning(METHODS["__exit__"])
def leave(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    steps = [step for step in machine.inference_steps if step.value is value]
    if isinstance(value, InferenceModeValue) and len(steps) == 1:
        before = TorchState.now()
        steps[0].entered.leave()
        follow(machine, Step(value, steps[0].entered, False, before, TorchState.now()))
        return NONE
    around = inference_modes.around(getattr(value, "object", None))
    if steps or around is None or not may_be_left(machine, around):
        raise Break(ForeignCall("__exit__"))
    before, stand_in = TorchState.now(), Entered(around.in_inference)
    torch._C._set_grad_enabled(around.records)
    follow(machine, Step(value, stand_in, False, before, TorchState.now()))
    machine.guards.add(value.source, EnteredIn(around))
    return NONE


def may_be_left(machine: Machine, around: Around) -> bool:
    """Whether it is certain that this is the mode which the program is in, and how it is outside of it."""
    now = Around.now()
    is_inner = now.in_inference and not around.in_inference
    return machine.options.follows_inference and is_inner and now.autocast == around.autocast


@meaning(torch.Tensor.is_inference, torch.is_inference)
def is_inference(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    tensor = machine.realize(arguments[0]) if len(arguments) == 1 and not keywords else None
    if not isinstance(tensor, TensorValue):
        raise Break(ForeignCall("is_inference"))
    return boolean(storage_of(tensor.node) in memory_made_inside(machine))


def follow(machine: Machine, step: Step) -> None:
    machine.journal.record(step.take_back)
    machine.journal.append(machine.inference_steps, step)
    if step.before.grad_mode != step.after.grad_mode:
        machine.graph.set_state(torch._C._set_grad_enabled, (step.after.grad_mode,))


def take_back(machine: Machine) -> None:
    """At the end of a capture, whatever ended it."""
    for step in reversed(machine.inference_steps):
        step.take_back()


def state_calls(machine: Machine, now: TorchState) -> tuple[Call, ...]:
    """What makes torch's state what the program left, `now`. A graph that runs operator by operator has left it so already, but for
    the mode."""
    at, steps = machine.state_at_entry, lasting(machine.inference_steps)
    if not steps:
        return now.since(at)
    if len(steps) > 1 or any(isinstance(value, WRITTEN_TO_TENSORS) for value in machine.written):
        raise CaptureAgain(follows_inference=False)
    step = steps[0]
    if step.enters and not step.entered.inference:  # it leads out of the mode
        raise CaptureAgain(follows_inference=False)
    if isinstance(step.value, InferenceModeValue):
        settings = dict.fromkeys((*step.before.settings_since(at), *step.before.settings_since(now)))
        step.value.settings = (*settings, *step.before.nesting_since(at))
        return now.since(step.after)
    return ((inference_modes.leave, (step.value,)), *now.settings_since(step.after), *now.nesting_since(at))


WRITTEN_TO_TENSORS = (DataValue, RequirementValue)
"""Effects that autograd may refuse in inference mode."""


def lasting(steps: Iterable[Step]) -> list[Step]:
    """Without the modes that were entered and left."""
    found: list[Step] = []
    for step in steps:
        if found and found[-1].value is step.value:
            found.pop()
        else:
            found.append(step)
    return found


def call_of(machine: Machine, outputs: tuple[fx.Node, ...]) -> InferenceCall:
    """How the graph is to be called. Captures again, without the modes, where that would show."""
    if not machine.inference_steps:
        return InferenceCall()
    if any("in_inference" in node.meta and node.op != "placeholder" and requires_grad(node) for node in machine.graph.graph.nodes):
        raise CaptureAgain(follows_inference=False)  # a leaf: what is computed of it outside leads to its gradient
    graph, begins_inside = machine.graph, machine.begins_in_inference
    made = [node for node in graph.graph.nodes if node.op not in ("placeholder", "get_attr") and node not in graph.setters]
    outside = [node for node in made if "in_inference" not in node.meta]
    storages = {storage_of(node) for node in outside} - {None}
    leaving = {*outputs, *graph.kept} - graph.setters
    shows = any(node in leaving or requires_grad(node) for node in outside)
    if not shows and not any(storage_of(node) in storages for node in leaving):
        return InferenceCall(enters=not begins_inside)
    memory = memory_made_inside(machine)
    if any(is_told_apart(node, memory) for node in outside) or any(map(switches_gradients_on, graph.setters)):
        raise CaptureAgain(follows_inference=False)
    results = [(place, node) for place, node in enumerate(outputs) if is_tensor(node) and node.op != "placeholder"]
    places = tuple(place for place, node in results if storage_of(node) in memory)
    if any("in_inference" in node.meta and place not in places for place, node in results):
        raise CaptureAgain(follows_inference=False)
    return InferenceCall(leaves=begins_inside, places=places)


def memory_made_inside(machine: Machine) -> set[int | None]:
    """Whatever lies there is an inference tensor, wherever it was cut out."""
    reals = {node: real for node, _, real in machine.graph.placeholders}
    found: dict[int | None, bool] = {}
    for node in machine.graph.graph.nodes:
        real = reals.get(node)
        inside = "in_inference" in node.meta if node not in reals else isinstance(real, torch.Tensor) and real.is_inference()
        found.setdefault(storage_of(node), inside)
    return {storage for storage, inside in found.items() if inside} - {None}


def is_told_apart(node: fx.Node, memory: set[int | None]) -> bool:
    """Whether an operation outside is one that autograd refuses on inference tensors, and would not on others."""
    if any(storage_of(written) in memory for written in node.meta.get("writes", ())):
        return True
    if "views_in_place" in node.meta and storage_of(node) in memory:
        return True
    if not requires_grad(node) and not any(map(requires_grad, node.users)):  # of several results each is a node
        return False
    reads = any(storage_of(read) in memory for read in node.all_input_nodes)
    return storage_of(node) in memory or reads and is_refused(node, memory)


def keeps_inference_tensors(machine: Machine) -> bool:
    """Whether eager refuses what the graph has computed so far, of inference tensors from outside: it keeps them for a backward pass."""
    memory = memory_made_inside(machine)
    nodes = machine.graph.graph.nodes if memory else ()
    return any(node.op != "placeholder" and "in_inference" not in node.meta and is_told_apart(node, memory) for node in nodes)


def is_kept(machine: Machine, node: fx.Node, result: Any) -> bool:
    """Whether autograd has to keep an inference tensor from outside for the backward pass of what was just recorded, and refuses."""
    memory = memory_from_outside(machine)
    if not memory or not any(isinstance(each, torch.Tensor) and each.requires_grad for each in tree_leaves(result)):
        return False
    return any(storage_of(read) in memory for read in node.all_input_nodes) and is_refused(node, memory)


def are_written(machine: Machine, written: Iterable[TensorValue]) -> bool:
    """Whether an inference tensor from outside, or a view of one, was just changed in place, which autograd refuses."""
    memory = memory_from_outside(machine)
    return bool(memory) and any(storage_of(tensor.node) in memory for tensor in written)


def memory_from_outside(machine: Machine) -> set[int | None]:
    """That of inference tensors, where the program is outside of the mode."""
    if not machine.has_inference_tensors or torch.is_inference_mode_enabled():
        return set()
    reals = ((given, real) for given, _, real in machine.graph.placeholders)
    return {storage_of(given) for given, real in reals if isinstance(real, torch.Tensor) and real.is_inference()} - {None}


def is_refused(node: fx.Node, memory: set[int | None]) -> bool:
    """Whether it keeps one of them for the backward pass: asked with tensors that are some."""
    if node.op not in ("call_function", "call_method") or isinstance(node.target, HOLDS_GRAPH) or node.meta.get("writes"):
        return True
    if not all(map(is_tensor, node.all_input_nodes)):  # numbers that vary
        return True

    def given(read: fx.Node) -> Any:
        example = read.meta["example_value"]
        if storage_of(read) not in memory:
            return example
        with Mode(True):
            return torch.empty_strided(example.size(), example.stride(), dtype=example.dtype, device=example.device)

    arguments, keywords = fx.node.map_arg((node.args, node.kwargs), given)
    with torch.inference_mode(False), torch.enable_grad():
        try:
            if isinstance(node.target, str):
                getattr(torch.Tensor, node.target)(*arguments, **keywords)
            else:
                node.target(*arguments, **keywords)
        except Exception:
            return True
    return False


def switches_gradients_on(node: fx.Node) -> bool:
    """In inference mode nothing is recorded for all that."""
    return "in_inference" in node.meta and node.target is torch._C._set_grad_enabled and node.args == (True,)


def is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.Tensor)


def requires_grad(node: fx.Node) -> bool:
    return is_tensor(node) and node.meta["example_value"].requires_grad
