"""`scan`, `map` and `while_loop` of torch: a function is followed once, and one node calls its graph as often as the operator does.

    scan(lambda carry, x: (carry + x, carry * 2), init, xs)      a node of what is carried and the rows of xs
    while_loop(lambda i, x: i < 3, body, (i, x))                 a node that runs between kernels: the run knows how often

A few steps are recorded one after the other, so that they are kernels with their gradients. More, or as many as a size that varies, run
as torch's operators between kernels. What the function gives has memory of its own, and it changes nothing outside, as torch asks of
it; where that is not so torch runs the call and says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._higher_order_ops import utils
from torch._higher_order_ops.associative_scan import associative_scan_op, generic_associative_scan
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from dynascope.autograd_functions.repetitions import Looped, Scanned
from dynascope.capture.calls import equivalents, late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.autograd_functions import value_of
from dynascope.capture.calls.registry import meaning, object_meaning
from dynascope.capture.calls.transforms import Body
from dynascope.capture.histories import storage_of
from dynascope.capture.metadata import can_require_grad
from dynascope.capture.random_nodes import draws_numbers
from dynascope.capture.values import InstanceValue, TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MOST_RECORDED = 500
"""The operators of all steps together that are recorded one after the other."""


class Step(Body):
    """A function that is called again and again, followed for one call."""

    place = "torch._higher_order_ops"

    def carry(self, value: Value) -> Value:
        """What stands for a tensor that goes from step to step: by the second it requires grad if it ever does."""
        tensor = self.checked(value)
        trains = torch.is_grad_enabled() and can_require_grad(tensor.example)
        return self.stand_in(
            tensor, torch.empty_like, (tensor.node,), lambda: torch.empty_like(tensor.example, requires_grad=trains)
        )

    def followed(self, function: Value, arguments: list[Value]) -> Value:
        """What one call gives, of which all are tensors, each in memory of its own."""
        result = self.follow(function, arguments)
        results = self.tensors(result)
        around = {storage_of(node) for node in (*self.lifted(results), *(each.node for each in self.inner))}
        own = [each.example.untyped_storage()._cdata for each in results]
        if len({*own}) < len(own) or around.intersection(own):
            raise self.cannot("its function returns what it is given, or one tensor twice")
        if any("late" in node.meta for node in self.nodes):
            raise self.cannot("its function has sizes that only the run knows")
        return result

    def check_carried(self, results: list[TensorValue], given: list[TensorValue]) -> None:
        kinds = [[(tuple(each.example.shape), each.example.dtype, each.device) for each in part] for part in (results, given)]
        if kinds[0][: len(given)] != kinds[1]:
            raise self.cannot("its function carries on tensors of another kind")

    def check_effects(self) -> None:
        """Torch draws numbers anew for a backward pass, and not as the loop does."""
        kept = self.machine.graph.kept
        if any(draws_numbers(node) or (node in kept and not node.meta.get("writes")) for node in self.nodes):
            raise self.cannot("its function draws random numbers, or has another effect")

    def leads_gradients(self, given: list[TensorValue], results: list[TensorValue]) -> bool:
        read = [*(value.example for value in given), *(node.meta.get("example_value") for node in self.lifted(results))]
        return torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in read)

    def operands(self, lifted: list[fx.Node]) -> list[Value]:
        """What the node is given."""
        return [*self.inputs, *(value_of(self, node) for node in lifted)]


@object_meaning(type(scan_op))
def call_scan(machine: Machine, operator: InstanceValue, arguments: Arguments, keywords: Keywords) -> Value:
    names = ("combine_fn", "init", "xs", "additional_inputs")
    function, *parts = (argument(arguments, keywords, at, name) for at, name in enumerate(names))
    return scanned(machine, "scan", function, *(list(machine.realize(part).items) for part in parts))


@object_meaning(type(map_impl))
def call_map(machine: Machine, operator: InstanceValue, arguments: Arguments, keywords: Keywords) -> Value:
    function, *parts = (argument(arguments, keywords, at, name) for at, name in enumerate(("f", "xs", "pos_args")))
    return scanned(machine, "map", function, [], *(list(machine.realize(part).items) for part in parts))


def scanned(machine: Machine, name: str, function: Value, init: list[Value], xs: list[Value], others: list[Value]) -> Value:
    step = Step(machine, name)
    carried, rows = ([step.checked(machine.realize(value)) for value in part] for part in (init, xs))
    result = step.followed(function, [*map(step.carry, carried), *(step.row(value, 0) for value in rows), *others])
    results = step.tensors(result)
    step.check_carried(results, carried)
    if step.leads_gradients([*carried, *rows], results):
        step.check_effects()
        if any(can_require_grad(each.example) and not each.example.requires_grad for each in results):
            raise step.cannot("it has results that no gradient comes from, to which torch gives a history all the same")
    steps = machine.extents.sizes(rows[0])[0]
    if isinstance(steps, int) and steps * len(step.nodes) <= MOST_RECORDED:
        values = step.made(results, lambda graph, _: Scanned(name, graph, len(carried), len(rows)), [])
        return step.filled(result, iter(values))
    if not late_numbers.are_served(machine):
        raise step.cannot("it makes too many steps")
    step.check_effects()
    lifted = step.lifted(results)
    target = Scanned(name, step.graph_of(results, lifted), len(carried), len(rows))
    return step.filled(result, iter(step.between_kernels(target, step.operands(lifted), results)))


@object_meaning(type(while_loop_op))
def call_while_loop(machine: Machine, operator: InstanceValue, arguments: Arguments, keywords: Keywords) -> Value:
    condition, function, given, others = (machine.realize(each) for each in arguments[:4])
    first = Step(machine, "while_loop")
    if keywords or not late_numbers.are_served(machine):
        raise first.cannot("it stands where no number of a tensor can be taken out")
    carried = [first.checked(machine.realize(value)) for value in given.items]
    goes_on = first.tensors(first.followed(condition, [*map(first.carry, carried), *others.items]))
    if [(tuple(each.example.shape), each.example.dtype) for each in goes_on] != [((), torch.bool)]:
        raise first.cannot("its condition is no tensor of one bool")
    second = Step(machine, "while_loop")
    result = second.followed(function, [*map(second.carry, carried), *others.items])
    results = second.tensors(result)
    second.check_carried(results, carried)
    lifted = list(dict.fromkeys([*first.lifted(goes_on), *second.lifted(results)]))
    if second.leads_gradients(carried, results):
        raise second.cannot("gradients through it are torch's own")
    for each in (first, second):
        each.check_effects()
    target = Looped(first.graph_of(goes_on, lifted), second.graph_of(results, lifted), len(carried))
    return second.filled(result, iter(second.between_kernels(target, second.operands(lifted), results)))


@object_meaning(type(associative_scan_op))
def call_associative_scan(machine: Machine, operator: InstanceValue, arguments: Arguments, keywords: Keywords) -> Any:
    names = ("combine_fn", "xs", "additional_inputs")
    function, xs, others = (argument(arguments, keywords, at, name) for at, name in enumerate(names))
    return equivalents.enter(machine, generic_associative_scan, [function, xs], {"additional_inputs": others})


@meaning(utils._maybe_compile_and_run_fn)
def run_function(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """Where no compiler is at work torch calls its own."""
    return machine.call(arguments[0], arguments[1:], keywords)


if hasattr(utils, "_hop_compile_and_call"):  # torch 2.13

    @meaning(utils._hop_compile_and_call)
    def call_compiled(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        function, given, *named = (*arguments, *keywords.values())
        named = {} if not named else {key: item for key, (_, item) in machine.realize(named[0]).items.items()}
        return machine.call(function, list(machine.realize(given).items), named)
