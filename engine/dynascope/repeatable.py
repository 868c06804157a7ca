"""Whether a region whose graph raised can run once more as it was written, from its start, and what that takes.

    x.add_(1); log.append(x.sum()); y = table[i]      an index is out of range when the graph runs

Compiled code writes to the outside after its graph has run, so that a graph that raises has done nothing yet; the code as it
was written then does what comes before the error, raises it from the user's own line, and does nothing that comes after. What a
graph may do on the way is drawing random numbers and, where it runs operator by operator, writing to its inputs. Both are
undone, at the cost of a copy in each call, but only where an operator looks at values and can raise. What autograd remembers of
a write cannot be taken back: where inputs with a gradient were written before the error, it is marked and passes (`passes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions import CustomFunction
from dynascope.capture import CapturedGraph
from dynascope.capture.calls.libraries import own_operators
from dynascope.capture.plan import PASSES
from dynascope.capture.raising import may_raise, operator_name

DRAWS = (
    "rand",
    "dropout",
    "bernoulli",
    "normal",
    "multinomial",
    "uniform",
    "exponential",
    "geometric",
    "cauchy",
    "poisson",
)
DRAWS += ("gumbel", "rrelu", "attention", "binomial", "gamma", "dirichlet")
"""Parts of the names of operators that draw random numbers."""


def repeatable(
    captured: CapturedGraph, function: Callable[..., Any], *, writes_inputs: bool
) -> tuple[Callable[..., Any], bool]:
    """The function to call, and whether the region can run again after it has raised.

    `writes_inputs` says that the function writes to inputs while it runs, as operators do one by one.
    """
    written = captured.written if writes_inputs else ()
    nodes = list(captured.module.graph.nodes)
    remembered = tuple(index for index in captured.written if captured.example_inputs[index].requires_grad)
    can_raise = any(map(may_raise, nodes))
    if not can_raise and not remembered:
        return function, not written
    if any(own_operators(node.target) for node in nodes):
        # What the program's own operators do besides cannot be taken back.
        return function, False
    draws = can_raise and any(map(draws_numbers, nodes))
    if remembered:
        # Autograd itself refuses some writes, such as one to a view of a leaf.
        function = marked_if_written(function, remembered if writes_inputs else captured.written)
        written = tuple(index for index in written if index not in remembered)
    return (undone_on_failure(function, written, draws) if written or draws else function), True


def draws_numbers(node: fx.Node) -> bool:
    if node.op not in ("call_function", "call_method"):
        return False
    if isinstance(node.target, CustomFunction):
        return any(map(draws_numbers, node.target.forward.graph.nodes))
    return isinstance(node.target, torch._ops.OpOverload) or any(part in operator_name(node) for part in DRAWS)


def marked_if_written(function: Callable[..., Any], written: tuple[int, ...]) -> Callable[..., Any]:
    """`function`, whose errors say whether inputs had been written by then."""

    def call(*inputs: Any) -> Any:
        before = [version_of(inputs[index]) for index in written]
        try:
            return function(*inputs)
        except Exception as error:
            if before != [version_of(inputs[index]) for index in written]:
                setattr(error, PASSES, True)
            raise

    return call


def version_of(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def undone_on_failure(function: Callable[..., Any], written: tuple[int, ...], draws: bool) -> Callable[..., Any]:
    """`function`, which when it raises leaves the inputs `written` and the random generators as they were."""

    def call(*inputs: Any) -> Any:
        copies = [inputs[index].detach().clone() for index in written]
        states = generator_states(inputs) if draws else ()
        try:
            return function(*inputs)
        except Exception:
            for index, copy in zip(written, copies, strict=True):
                inputs[index].data.copy_(copy)
            for generator, state in states:
                generator.set_state(state)
            raise

    return call


def generator_states(inputs: tuple) -> list[tuple[torch.Generator, torch.Tensor]]:
    generators = [torch.default_generator]
    if any(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs):
        generators += torch.cuda.default_generators
    return [(generator, generator.get_state()) for generator in generators]
