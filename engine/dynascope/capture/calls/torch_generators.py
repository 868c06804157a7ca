"""Torch's generators of random numbers: their states, and draws from those that the program names.

    state = torch.get_rng_state(); y = torch.rand(3); torch.set_rng_state(state)       generator_get_state, rand, generator_set_state
    g = torch.Generator().manual_seed(seed); x + torch.randn(3, generator=g)          generator_Generator, generator_manual_seed, ...

Each is an operator between kernels, in the program's order. One that is made inside is a value of the graph alone: where the program
keeps it, or it is alive across a break, the graph ends before it is made. One that the program keeps elsewhere is guarded to be that one;
an argument may be another at each call, and is left to Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.operands import to_operand
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensor_names import FACTORIES
from dynascope.capture.expressions import callee
from dynascope.capture.generator_calls import GeneratorCall
from dynascope.capture.metadata import META, missing_device, with_index
from dynascope.capture.reasons import ForeignCall, ForeignValue
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, InstanceValue, TensorValue, Value, constant_of
from dynascope.guards.guard import IdentityIs
from dynascope.guards.source import LocalSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

Apply = Callable[[str, Any, str, list[Value], dict[str, Value]], Value]
"""An operation on tensors: how it is called, what is, its name, arguments and keywords."""


class GeneratorValue(Value):
    """A generator that the graph makes."""

    __slots__ = ("device", "node")
    source = None
    python_type = torch.Generator

    def __init__(self, node: torch.fx.Node, device: torch.device) -> None:
        self.node, self.device = node, device


def is_generator(value: Value) -> bool:
    return issubclass(value.python_type, torch.Generator)


def foreign(machine: Machine, name: str) -> Break:
    return Break(ForeignCall(callee(machine.expression()) or name, "it works on the state of a generator of random numbers"))


def owner_of(machine: Machine, value: Value) -> tuple[torch.Generator | None, torch.fx.Node | None, torch.device]:
    """The generator as it is, or the node that makes it, and its device."""
    value = machine.realize(value)
    if isinstance(value, GeneratorValue):
        return None, value.node, value.device
    generator = value.object if isinstance(value, InstanceValue) else None
    is_argument = value.source is None or isinstance(value.source, LocalSource)
    if type(generator) is not torch.Generator or is_argument or not may_call(machine):
        raise Break(ForeignValue("Generator", machine.expression()))
    machine.guards.add(value.source, IdentityIs(generator))
    return generator, None, generator.device


def may_call(machine: Machine) -> bool:
    return machine.options.draws and late_numbers.are_served(machine)


def call(machine: Machine, call: GeneratorCall, arguments: tuple, example: Callable[[], torch.Tensor] | None, device: Any) -> torch.fx.Node:
    """A node that calls it. `example` gives what comes of it, where that is a tensor."""
    result = late_numbers.LateResult((), lambda arguments, keywords: example() if example else None)
    made = example() if example else None
    node = late_numbers.late_node(machine, "call_function", call, arguments, {}, made, device, result)
    machine.graph.keep(node)
    return node


@meaning(torch.Generator)
def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = machine.realize(argument(arguments, keywords, 0, "device", ConstantValue("cpu")))
    known = constant_of(given)
    if not may_call(machine) or type(known) not in (str, torch.device) or len(arguments) + len(keywords) > 1:
        raise foreign(machine, "torch.Generator")
    try:
        device = with_index(torch.device(known))
    except RuntimeError:  # which the call says itself
        raise foreign(machine, "torch.Generator") from None
    if missing_device(device) is not None:
        raise foreign(machine, "torch.Generator")
    return GeneratorValue(call(machine, GeneratorCall(torch.Generator), (str(device),), None, device), device)


@meaning(torch.Generator.manual_seed)
def seed(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner, node, device = owner_of(machine, arguments[0])
    number, _ = number_told(machine, argument(arguments[1:], keywords, 0, "seed", NONE), "manual_seed")
    given = (number,) if node is None else (node, number)
    call(machine, GeneratorCall(torch.Generator.manual_seed, owner), given, None, device)
    return machine.realize(arguments[0])


def number_told(machine: Machine, value: Value, name: str) -> tuple[Any, Any]:
    pair = to_operand(machine, value)
    if type(pair[1]) is not int:
        raise foreign(machine, name)
    return pair


@meaning(torch.random.manual_seed)
def seed_all(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of all devices."""
    if not may_call(machine):
        raise foreign(machine, "torch.manual_seed")
    number, _ = number_told(machine, argument(arguments, keywords, 0, "seed", NONE), "torch.manual_seed")
    call(machine, GeneratorCall(torch.random.manual_seed), (number,), None, torch.device("cpu"))
    return machine.outside.fixed(torch.default_generator, "torch.default_generator")


@meaning(torch.Generator.get_state)
def get_state(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner, node, device = owner_of(machine, arguments[0])
    length = (torch.Generator(device) if owner is None else owner).get_state().numel()
    cpu = torch.device("cpu")
    target = GeneratorCall(torch.Generator.get_state, owner)
    made = call(machine, target, () if node is None else (node,), lambda: torch.empty(length, dtype=torch.uint8, device=META), cpu)
    return machine.tensor(made, made.meta["example_value"], cpu)


@meaning(torch.Generator.set_state)
def set_state(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner, node, device = owner_of(machine, arguments[0])
    state = machine.realize(argument(arguments[1:], keywords, 0, "new_state", NONE))
    if not isinstance(state, TensorValue) or state.device.type != "cpu":
        raise foreign(machine, "set_state")
    given = (state.node,) if node is None else (node, state.node)
    call(machine, GeneratorCall(torch.Generator.set_state, owner), given, None, device)
    return machine.realize(arguments[0])


def drawn(
    machine: Machine, kind: str, target: Any, name: str, arguments: list[Value], keywords: dict[str, Value], apply: Apply
) -> Value:
    """What the operation gives, whose numbers come from the generator that it is told."""
    owner, generator, device = owner_of(machine, keywords["generator"])
    plain = {key: value for key, value in keywords.items() if key != "generator"}
    if "out" in plain or not may_call(machine):
        raise Break(ForeignValue("Generator", machine.expression()))
    if kind == "call_method" and name.endswith("_") and target is getattr(torch.Tensor, name, None):
        return filled(machine, target, name, arguments, plain, (owner, generator, device), apply)
    made = apply(kind, target, name, arguments, plain)
    if not isinstance(made, TensorValue) or made.device != device or made.node is not last_node(machine):
        raise Break(ForeignValue("Generator", machine.expression()))
    draw_from(machine, made.node, GeneratorCall(target, owner, by_name=True), generator)
    return made


def filled(
    machine: Machine, target: Any, name: str, arguments: list[Value], plain: Keywords, source: tuple[Any, Any, torch.device], apply: Apply
) -> Value:
    """`x.normal_(generator=g)`: the numbers of a tensor like it, copied to it. Of one with holes the order of numbers is another."""
    owner, generator, device = source
    tensor = machine.realize(arguments[0])
    if not isinstance(tensor, TensorValue) or tensor.device != device or not has_no_holes(tensor.example):
        raise Break(ForeignValue("Generator", machine.expression()))
    detached = apply("call_method", torch.Tensor.detach, "detach", [tensor], {})
    fresh = apply("call_function", torch.empty_like, "empty_like", [detached], {})
    made = apply("call_method", target, name, [fresh, *arguments[1:]], plain)
    node = last_node(machine)
    if made is not fresh or not isinstance(fresh, TensorValue) or node.args[0] is not fresh.node:
        raise Break(ForeignValue("Generator", machine.expression()))
    node.meta.pop("writes", None)
    node.meta["example_value"] = torch.empty_like(fresh.example)
    draw_from(machine, node, GeneratorCall(target, owner, by_name=True, fills=True), generator)
    numbers = machine.tensor(node, node.meta["example_value"], device)
    return apply("call_method", torch.Tensor.copy_, "copy_", [tensor, numbers], {})


def has_no_holes(example: torch.Tensor) -> bool:
    return torch.empty_like(example).stride() == example.stride()


def last_node(machine: Machine) -> torch.fx.Node:
    return next(reversed(machine.graph.graph.nodes))


def draw_from(machine: Machine, node: torch.fx.Node, target: GeneratorCall, generator: torch.fx.Node | None) -> None:
    """Makes the node, a call without the generator, one that draws from it."""
    function = target.function

    def again(arguments: tuple, keywords: dict[str, Any]) -> torch.Tensor:
        if target.fills:
            return torch.empty_like(arguments[0])
        told = {name: value for name, value in keywords.items() if name != "generator"}
        makes = function.__name__ in FACTORIES and not any(isinstance(each, torch.Tensor) for each in (*arguments, *told.values()))
        return function(*arguments, **(told | {"device": META} if makes or "device" in told else told))

    node.op, node.target = "call_function", target
    if generator is not None:
        node.kwargs = {**node.kwargs, "generator": generator}
    node.meta["late"], node.meta["late_result"] = True, late_numbers.LateResult((), again)
    machine.sizes.scope.undecided = lambda relation: late_numbers.undecided(machine, relation)
    machine.graph.keep(node)
