"""`torch.cond`: both functions are followed, and one node runs the one that the condition asks for.

    torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

What they give must be of one kind and of memory of its own, and they change nothing outside, as torch asks of them; where that is not so,
torch runs the call and says it. A condition that is a number of Python's is decided at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.autograd_functions.choices import Chosen
from dynascope.capture.calls import late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.autograd_functions import value_of
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.transforms import Body, rebuilt
from dynascope.capture.histories import storage_of
from dynascope.capture.protocols.truth import truth
from dynascope.capture.values import ConstantValue, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


class Branch(Body):
    """A function that runs, or does not."""

    place = "torch"

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, "cond")
        self.result: Value
        self.results: list[TensorValue] = []

    def taken(self, function: Value, operands: list[Value]) -> Branch:
        self.result = self.follow(function, operands)
        self.results = self.tensors(self.result)
        self.check_own_memory()
        return self

    def check_own_memory(self) -> None:
        """What comes out is made inside: whether it shares memory with what is outside must not hang on the condition."""
        outside = {storage_of(node) for node in self.lifted(self.results)} - {None}
        if any(result.example.untyped_storage()._cdata in outside for result in self.results):
            raise self.cannot("a branch returns what it is given")
        if any("late" in node.meta or node in self.machine.graph.kept for node in self.nodes):
            raise self.cannot("a branch writes, draws, or has sizes that only the run knows")


@meaning(torch.cond)
def cond(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    names = ("pred", "true_fn", "false_fn", "operands")
    given_values = (argument(arguments, keywords, at, name, TupleValue(())) for at, name in enumerate(names))
    condition, *functions, given = map(machine.realize, given_values)
    if isinstance(condition, ConstantValue) and type(condition.value) in (bool, int, float):
        operands = list(rebuilt(machine, given, None, lambda leaf, _: leaf).items)
        return machine.call(functions[0 if truth(machine, condition) else 1], operands)
    body = Branch(machine)
    if not isinstance(condition, TensorValue) or condition.example.numel() != 1 or condition.example.dtype is not torch.bool:
        raise body.cannot("its condition is no tensor of one bool")
    if not isinstance(given, (TupleValue, ListValue)) or not late_numbers.are_served(machine):
        raise body.cannot("it stands where no number of a tensor can be taken out")
    body.tensors(given)
    branches = [Branch(machine).taken(function, list(given.items)) for function in functions]
    check_alike(body, branches)
    return made(condition, branches)


def check_alike(body: Branch, branches: list[Branch]) -> None:
    kinds = [list(map(kind_of, branch.results)) for branch in branches]
    structures = [structure(body.machine, branch.result) for branch in branches]
    if kinds[0] != kinds[1] or structures[0] != structures[1]:
        raise body.cannot("its branches return tensors of different kinds")


def kind_of(result: TensorValue) -> tuple:
    example = result.example
    return tuple(example.shape), example.stride(), example.dtype, result.device, example.requires_grad


def structure(machine: Machine, value: Value) -> Any:
    value = machine.realize(value)
    if isinstance(value, TensorValue):
        return None
    items = getattr(value, "items", None)
    if isinstance(items, dict):
        return {key: structure(machine, item) for key, (_, item) in items.items()}
    return value.python_type, [structure(machine, item) for item in items or ()]


def made(condition: TensorValue, branches: list[Branch]) -> Value:
    first = branches[0]
    operands = list(dict.fromkeys(node for branch in branches for node in branch.lifted(branch.results)))
    chosen = Chosen(*(branch.taken_out(operands, branch.results) for branch in branches))
    given = [condition, *(value_of(first, node) for node in operands)]
    return first.filled(first.result, iter(first.between_kernels(chosen, given, first.results)))
