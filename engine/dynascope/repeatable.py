"""Whether a region whose graph raised can run once more as it was written, from its start, and what that takes.

    x.add_(1); log.append(x.sum()); y = table[i]      an index is out of range when the graph runs

Compiled code writes to the outside after its graph has run, so that a graph that raises has done nothing yet; the code as it
was written then does what comes before the error, raises it from the user's own line, and does nothing that comes after. What a
graph may do on the way is drawing random numbers and, where it runs operator by operator, writing to its inputs. Both are
undone, at the cost of a copy in each call, but only where an operator looks at values and can raise; where none does, what is
raised nevertheless passes. What autograd remembers of a write to what had a history cannot be taken back: then the error is
marked and passes too (`plan.error_passes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._C import _autograd

from dynascope.capture import CapturedGraph
from dynascope.capture.calls.libraries import own_operators
from dynascope.capture.generator_calls import GeneratorCall
from dynascope.capture.host_draws import HostDraw
from dynascope.capture.library_checks import CHECKED
from dynascope.capture.plan import PASSES
from dynascope.capture.raising import may_raise, operator_name, refused_by_real_tensors_only
from dynascope.capture.random_nodes import draws_numbers


def repeatable(
    captured: CapturedGraph, function: Callable[..., Any], *, writes_inputs: bool
) -> tuple[Callable[..., Any], bool]:
    """The function to call, and whether the region can run again after it has raised.

    `writes_inputs` says that the function writes to inputs while it runs, as operators do one by one.
    """
    nodes = list(captured.module.graph.nodes)
    can_raise = any(may_raise(node) or refused_by_real_tensors_only(node) for node in nodes)
    draws = any(map(draws_numbers, nodes))
    moving = (node.target for node in nodes if isinstance(node.target, (HostDraw, GeneratorCall)))
    hosts = tuple({id(target.generator): target for target in moving if target.generator is not None}.values())
    # Autograd itself refuses some writes, such as one to a view of a leaf.
    refusable = any(captured.example_inputs[index].requires_grad for index in captured.written) and records_writes(
        nodes
    )
    if not can_raise and not refusable:
        if writes_inputs and captured.written:
            return function, False
        return (undone_once(function, hosts) if draws else function), True
    if any(own_operators(node.target) for node in nodes):
        # What the program's own operators do besides cannot be taken back.
        return function, False
    if writes_inputs or draws:
        leaves = any(operator_name(node) == "as_strided" for node in nodes)
        copy = (copy_of_storage if leaves else copy_of_elements) if writes_inputs else None
        return undone_on_failure(function, captured.written, draws, copy, hosts), True
    return (marked_if_written(function, captured.written) if refusable else function), True


def operators_beside_checks(module: fx.GraphModule) -> frozenset[Any]:
    """Operators of the program's own in a graph that asks something of the program's: where the answer is no they would run twice."""
    nodes = list(module.graph.nodes)
    if not any(CHECKED in node.meta for node in nodes):
        return frozenset()
    return frozenset(operator for node in nodes for operator in own_operators(node.target))


def leaves_nothing(captured: CapturedGraph) -> bool:
    """Whether its operators may run once more: they write to no input and draw no numbers."""
    nodes = list(captured.module.graph.nodes)
    return not captured.written and not any(draws_numbers(node) or own_operators(node.target) for node in nodes)


def records_writes(nodes: list[fx.Node]) -> bool:
    """Whether anything is written while autograd looks, by a node that says so in its name."""
    enabled = torch.is_grad_enabled()
    for node in nodes:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if operator_name(node).endswith("set_grad_enabled"):
            enabled = bool(node.args[0])
        elif enabled and (name.endswith("_") or name != operator_name(node) or "out" in node.kwargs):
            return True
    return False


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


def count_again(tensors: list[torch.Tensor], versions: list[int]) -> None:
    """Writes that were undone have not been: what writes again is counted as the first."""
    counting = [(tensor, version) for tensor, version in zip(tensors, versions, strict=True) if not tensor.is_inference()]
    if counting:
        _autograd._unsafe_set_version_counter(*zip(*counting, strict=True))


def version_of(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def undone_once(function: Callable[..., Any], hosts: tuple[HostDraw | GeneratorCall, ...]) -> Callable[..., Any]:
    """`function`, of which nobody expects that it raises. Types that are refused are refused in the first call: it gives the random
    numbers back. Later errors pass."""
    first = undone_on_failure(function, (), True, None, hosts)

    def call(*inputs: Any) -> Any:
        nonlocal first
        if (run := first) is not None:
            result = run(*inputs)
            first = None
            return result
        try:
            return function(*inputs)
        except Exception as error:
            setattr(error, PASSES, True)
            raise

    return call


def undone_on_failure(
    function: Callable[..., Any],
    written: tuple[int, ...],
    draws: bool,
    copy: Callable[[torch.Tensor], Callable[[], Any]] | None,
    hosts: tuple[HostDraw | GeneratorCall, ...],
) -> Callable[..., Any]:
    """`function`, which when it raises leaves the inputs `written` and the random generators as they were, or says that it does
    not; of Python's, NumPy's and the program's own those that `hosts` draw from. Without `copy`, which gives what puts a tensor's contents
    back, it writes to them at its end alone."""

    def call(*inputs: Any) -> Any:
        histories = [history_of(inputs[index]) for index in written]
        restores = [copy(inputs[index]) for index in written] if copy else ()
        versions = [version_of(inputs[index]) for index in written]
        states = generator_states(inputs) if draws else ()
        host_states = [host.state() for host in hosts]
        try:
            return function(*inputs)
        except Exception as error:
            told = [(inputs[i], old) for i, old in zip(written, histories, strict=True) if history_of(inputs[i]) != old]
            rewritten = not copy and versions != [version_of(inputs[index]) for index in written]
            if rewritten or not all(can_be_forgotten(*each) for each in told):
                setattr(error, PASSES, True)
                raise
            for tensor, _ in told:
                tensor.detach_()
            for restore in restores:
                restore()
            if copy:
                count_again([inputs[index] for index in written], versions)
            for generator, state in states:
                generator.set_state(state)
            for restore in host_states:
                restore()
            raise

    return call


def copy_of_elements(tensor: torch.Tensor) -> Callable[[], Any]:
    contents = tensor.detach().clone()
    return lambda: tensor.data.copy_(contents)


def copy_of_storage(tensor: torch.Tensor) -> Callable[[], Any]:
    """Also of what the tensor itself does not show."""
    storage = tensor.untyped_storage()
    contents = storage.clone()
    return lambda: storage.copy_(contents)


def history_of(tensor: torch.Tensor) -> tuple[bool, Any] | None:
    """What autograd remembers of how the tensor came about; None where it refuses to say. A view takes after its base: its own
    node is made anew after each write, recorded or not."""
    try:
        owner = tensor if tensor._base is None else tensor._base
        return owner.requires_grad, owner.grad_fn
    except RuntimeError:
        return None


def can_be_forgotten(tensor: torch.Tensor, before: tuple[bool, Any] | None) -> bool:
    """Whether `detach_` gives back what was `before` the graph wrote to the tensor."""
    return before == (False, None) and not tensor._is_view()


def generator_states(inputs: tuple) -> list[tuple[torch.Generator, torch.Tensor]]:
    generators = [torch.default_generator]
    if any(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs):
        generators += torch.cuda.default_generators
    return [(generator, generator.get_state()) for generator in generators]
