"""What the program does with DTensors: one node a call, between DTensors. Below autograd these come down to this rank's work and to
collectives, for meta tensors as for others, so that the recording of both passes sees plain operators.

    x = DTensor.from_local(part, mesh, [Shard(1)])     from_local
    y = x.redistribute(placements=[Replicate()])       redistribute: an all_gather in the graph
    torch.relu(y).to_local()                           relu, to_local

Left to Python: what writes to one, draws random numbers (each rank its own, by a generator that all ranks agree on), or is asked for a
value.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import torch

from dynascope.autograd_functions.distributed_parts import Border, possible_ways
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.tensor_metadata import metadata_method, number_values
from dynascope.capture.calls.tensor_names import METADATA_ATTRIBUTES, METADATA_METHODS, VALUE_METHODS, VIEW_ATTRIBUTES
from dynascope.capture.calls.tensors import Operation
from dynascope.capture.distributed_values import DistributedValue, is_distributed
from dynascope.capture.metadata import META
from dynascope.capture.operators_called import operators_called
from dynascope.capture.protocols.classes import MISSING, lookup, member
from dynascope.capture.reasons import DataDependentValue, ForeignCall, TensorAttribute, TensorSubclass
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, MethodValue, NotConstant, TensorValue, Value, constant_of
from dynascope.guards.parallel_layer import Part, PlacedAs
from dynascope.guards.source import LocalPartSource, Source, waited
from dynascope.meta_kernels import autocast
from dynascope.meta_kernels.quiet_torch import without_messages
from dynascope.sizes import Size, fix

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


class DistributedOperation(Operation):
    """A call of torch with DTensors, or that makes one, on its way to being a node."""

    def refuse_types(self) -> None:
        """The library looks."""

    def run(self) -> Value:
        self.refuse_gradients(list(self.examples))
        device = self.tensors[0].device
        example = self.run_on_meta()
        self.refuse_gradients([example])
        node = self.machine.graph.call(*self.graph_target(), self.arguments, self.keywords)
        self.machine.graph.describe(node, example if isinstance(example, torch.Tensor) else None, device)
        self.machine.graph.keep(node)  # the other ranks wait for its collectives, also where nobody reads the result
        node.meta["writes"] = ()
        return self.result(node, example, device)

    def run_on_meta(self) -> Any:
        try:
            with autocast.simulated(self.device_type_of), without_messages():
                return self.machine.in_plain_mode(lambda: self.target(*self.examples, **self.named_examples))
        except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
            raise Break(self.failure(error)) from None

    def result(self, node: torch.fx.Node, example: Any, device: torch.device, written: Any = ()) -> Value:
        if not isinstance(example, torch.Tensor) or not is_distributed(type(example)):
            return super().result(node, example, device)
        return made(self.machine, node, example, device)


def made(machine: Machine, node: torch.fx.Node, example: Any, device: torch.device) -> DistributedValue:
    """The value of a node that gives a DTensor."""
    machine.graph.describe(node, example, device)
    tensor = TensorValue(node, example, device)
    fix_cut_sizes(machine, tensor)
    part = machine.in_plain_mode(lambda: LocalPart()(example))
    of_part = machine.graph.call("call_function", LocalPart(), (node,), {})

    def layout() -> tuple[Value, Value]:
        sizes = number_values(machine, machine.extents.sizes(tensor), example.shape)
        return sizes, number_values(machine, machine.extents.ask(tensor, lambda each: each.stride()), example.stride())

    return DistributedValue(tensor, machine.tensor(of_part, part, device), layout)


def fix_cut_sizes(machine: Machine, tensor: TensorValue) -> None:
    """Sizes that the ranks share are the numbers at hand: others may not come out even, and are padded then."""
    for placement in tensor.example.placements if machine.extents.vary else ():
        if placement.is_shard() and isinstance(size := machine.extents.sizes(tensor)[placement.dim], Size):
            fix(size)


def from_outside(machine: Machine, object: Any, source: Source) -> DistributedValue:
    facts = Part.of(object)
    if facts is None or torch._C._functorch.maybe_current_level() is not None:
        raise Break(TensorSubclass("DTensor", source.expression()))
    machine.guards.add(source, PlacedAs(facts))
    border = Border(facts.specification, possible_ways(object.placements) if facts.requires_grad else ())
    parts = parts_from_outside(machine, border, source)
    example = machine.in_plain_mode(lambda: border(*(part.example for part in parts)))
    node = machine.graph.call("call_function", border, tuple(part.node for part in parts), {})
    machine.graph.describe(node, example, parts[0].device)
    value = DistributedValue(TensorValue(node, example, parts[0].device))
    value.source, value.object = source, object
    return value


def parts_from_outside(machine: Machine, border: Border, source: Source) -> list[TensorValue]:
    return [machine.outside.part_of(LocalPartSource(source, border, way)) for way in range(len(border.ways))]


def operation(
    machine: Machine, kind: str, target: Any, name: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """A call of torch's own operations."""
    call = DistributedOperation(machine, kind, target, name, arguments, keywords)
    plain = _plain(call.examples), _plain(call.named_examples)
    operators = operators_called(target, *plain)
    if operators is None:
        raise Break(TensorSubclass("DTensor", machine.expression()))
    for each in operators:
        if each._schema.is_mutable:
            raise Break(ForeignCall(machine.expression(), "it writes to a DTensor"))
        if torch.Tag.nondeterministic_seeded in each.tags:
            raise Break(ForeignCall(machine.expression(), "it draws random numbers for a DTensor"))
    return call.run()


def _plain(value: Any) -> Any:
    """The argument with plain tensors of the sizes of all ranks."""
    if isinstance(value, torch.Tensor) and is_distributed(type(value)):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def method(machine: Machine, function: Any, name: str, arguments: list[Value], keywords: Keywords) -> Value:
    """A method in C."""
    value = machine.realize(arguments[0])
    if name in METADATA_METHODS and not machine.extents.vary:
        return metadata_method(machine, function, name, arguments, keywords)
    if name == "size" and not keywords:
        sizes = number_values(machine, machine.extents.sizes(value.tensor), value.tensor.example.shape)
        return sizes if len(arguments) == 1 else sizes.items[constant_of(machine.known(arguments[1]))]
    if name in METADATA_METHODS:
        raise Break(TensorSubclass("DTensor", machine.expression()))
    if name in VALUE_METHODS:
        raise Break(DataDependentValue(machine.expression(), name))
    return operation(machine, "call_method", function, name, arguments, keywords)


def attribute(machine: Machine, value: DistributedValue, name: str) -> Any:
    example, cls = value.tensor.example, value.python_type
    if name == "shape":
        return number_values(machine, machine.extents.sizes(value.tensor), example.shape)
    if name in OF_DISTRIBUTED:
        return ConstantValue(getattr(example, name))
    if name == "device":
        return ConstantValue(value.tensor.device)
    if name == "__class__":
        return ConstantValue(cls)
    if name in METADATA_ATTRIBUTES - LEFT_OUT and type(getattr(example, name)) in NUMBERS:
        return ConstantValue(getattr(example, name))
    if name in VIEW_ATTRIBUTES and name != "data" and (name not in ("T", "H") or example.dim() == 2):
        function, arguments = VIEW_ATTRIBUTES[name]
        given = [value, *map(ConstantValue, arguments(example))]
        return operation(machine, "call_method", getattr(torch.Tensor, function), function, given, {})
    entry = lookup(cls, name)
    if entry is MISSING or not callable(entry) or (value.object is not None and name in vars(value.object)):
        raise Break(TensorAttribute(name))
    return MethodValue(member(machine, cls, name) if inspect.isfunction(entry) else ConstantValue(entry), value)


OF_DISTRIBUTED = frozenset({"placements", "device_mesh"})
NUMBERS = (bool, int, torch.dtype, torch.layout)
LEFT_OUT = {"is_leaf", "grad_fn", "nbytes"}


class Asked:
    """A method of DTensors, with all that it is told but the tensor."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name, self.settings = name, settings
        self.__name__, self.__module__ = name, __name__

    def __call__(self, tensor: Any) -> Any:
        dtensor = sys.modules["torch.distributed.tensor"].DTensor
        return there(getattr(dtensor, self.name)(tensor, **self.settings))


class LocalPart(Asked):
    """`to_local()`, where this rank's part is needed for itself."""

    def __init__(self) -> None:
        super().__init__("to_local", {})


def there(tensor: Any) -> Any:
    """Plain where it is under way still."""
    return waited(tensor) if type(tensor).__name__ == "AsyncCollectiveTensor" else tensor


def call(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """One of `METHODS`."""
    name = function.__name__
    try:
        given = dict(inspect.signature(function).bind(*arguments, **keywords).arguments)
    except TypeError:
        raise Break(ForeignCall(machine.expression(), "torch does not take these arguments")) from None
    tensor = machine.realize(given.pop(METHODS[name]))
    kind = TensorValue if name == "from_local" else DistributedValue
    settings = {key: constant_of(machine.known(value)) for key, value in given.items()}
    unknown = any(type(value) is NotConstant for value in settings.values())
    if type(tensor) is not kind or unknown or settings.get("run_check"):
        raise Break(ForeignCall(machine.expression(), "what it is told varies, or is compared between ranks"))
    return DistributedOperation(machine, "call_function", Asked(name, settings), name, [tensor], {}).run()


METHODS = {"from_local": "local_tensor", "to_local": "self", "redistribute": "self", "full_tensor": "self"}
"""Of DTensors, in Python, each with the name of the tensor among its arguments."""
MODULE = "torch.distributed.tensor._api"


def is_method(function: Any) -> bool:
    """Whether a function of the program's is one of these."""
    if getattr(function, "__module__", None) != MODULE or function.__name__ not in METHODS:
        return False
    return function.__qualname__ == f"DTensor.{function.__name__}"
