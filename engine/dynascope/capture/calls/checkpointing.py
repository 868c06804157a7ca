"""`torch.utils.checkpoint.checkpoint`: the function is followed like any other, and what it makes is marked to be made again.

Which values the backward pass keeps is decided where the graph is cut (`grad/partition.py`): nothing of what lies between the
arguments and the result of such a call, as in eager, but what its program wants kept (`selective_checkpointing.py`).
"""

from __future__ import annotations

import dis
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch.utils import checkpoint as torchs

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.autograd_functions import requires_grad
from dynascope.capture.calls.inference_mode import memory_made_inside
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.selective_checkpointing import policy_of, to_keep
from dynascope.capture.calls.tensors import apply_method
from dynascope.capture.calls.views_in_place import saves
from dynascope.capture.earlier import Earlier
from dynascope.capture.histories import function_of, functions_of, storage_of
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.unused import may_go
from dynascope.capture.values import CellValue, DictValue, FunctionValue, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.exits import FrameState
    from dynascope.capture.machine import Machine

WITHOUT_MEANING_HERE = ("preserve_rng_state", "determinism_check", "early_stop")
"""What is computed again is the same: the numbers that were drawn are kept, and nothing else can have changed."""


@meaning(torchs.checkpoint)
def checkpoint(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    function, *given = arguments
    rest = {name: value for name, value in keywords.items() if name not in WITHOUT_MEANING_HERE}
    reentrant = rest.pop("use_reentrant", None)
    contexts = rest.pop("context_fn", None)
    looks_closely = "debug" in rest and machine.object_of(rest.pop("debug")) is not False
    if reentrant is None or looks_closely or (contexts is not None and machine.object_of(reentrant)):
        raise Break(ForeignCall("checkpoint", "how it runs again is left open, or it is to look for what differs"))
    operands = [each for each in map(machine.realize, (*given, *rest.values())) if isinstance(each, TensorValue)]
    memory = memory_made_inside(machine) if machine.has_inference_tensors or machine.inference_steps else set()
    if torch.is_grad_enabled() and (torch.is_inference_mode_enabled() or any(storage_of(each.node) in memory for each in operands)):
        raise Break(ForeignCall("checkpoint", "what inference mode makes cannot be kept for a backward pass"))
    if machine.object_of(reentrant) and not any(map(requires_grad, map(machine.realize, given))):
        raise Break(ForeignCall("checkpoint", "without an argument that requires grad its result has no gradient"))
    graph = machine.graph
    before, tensor_writes = Earlier(machine, [function, *given]), len(machine.tensor_writes)
    policy = None if contexts is None else policy_of(machine, contexts)
    start = len(graph.graph.nodes)
    read = variables_of(machine, function)
    result = machine.realize(machine.call_now(function, given, rest))
    if before.is_changed(machine) or tensor_writes != len(machine.tensor_writes):
        raise Break(ForeignCall("checkpoint", "what its function changes is changed again in the backward pass"))
    if torch.is_grad_enabled():
        made = list(graph.graph.nodes)[start:]
        draws_anew = "preserve_rng_state" in keywords and not machine.object_of(keywords["preserve_rng_state"])
        if draws_anew and not all(map(may_go, made)):
            raise Break(ForeignCall("checkpoint", "its function may draw other random numbers when it runs again"))
        kept = {value.node for value in tensors_of(machine, result)}
        if policy is not None:
            kept.update(to_keep(machine, policy, made))
            if before.is_changed(machine):
                raise Break(ForeignCall("checkpoint", "its policy changes objects of the program"))
        graph.make_again([node for node in made if node not in kept])
        has_history = any(each.example.requires_grad for each in tensors_of(machine, result))
        tensors = [value.node for value in map(machine.realize, given) if isinstance(value, TensorValue)]
        machine.journal.append(machine.checkpoints, (tensor_writes, made, read, tensors if has_history else []))
        earlier = {storage_of(node) for node in list(graph.graph.nodes)[:start]}
        result = apart(machine, result, earlier)
    return result


def apart(machine: Machine, result: Value, earlier: set[int | None]) -> Value:
    """The result, in memory of its own where autograd keeps it for its own backward pass: in eager that is made again, so that the
    result may be written. `earlier` is the memory of what was there before."""
    results = tensors_of(machine, result)
    functions = functions_of(each.example for each in results)
    memories = {storage_of(each.node) for each in results} - earlier
    kept = {memory for memory in memories if any(saves(function, memory) for function in functions)}
    if not kept:
        return result

    def of_its_own(value: Value) -> Value:
        value = machine.realize(value)
        if not isinstance(value, TensorValue) or storage_of(value.node) not in kept:
            return value
        if value.example._is_view():
            raise Break(ForeignCall("checkpoint", "its result shares memory with what is made again"))
        return apply_method(machine, torch.Tensor.clone, [value], {})

    if isinstance(result, TupleValue) and result.cls is tuple:
        return TupleValue(tuple(map(of_its_own, result.items)))
    if not isinstance(result, TensorValue):
        raise Break(ForeignCall("checkpoint", "its result holds what is made again"))
    return of_its_own(result)


def variables_of(machine: Machine, function: Value) -> list[tuple[CellValue, Value]]:
    """The variables of enclosing functions that the function reads, with what they hold."""
    function = machine.realize(function)
    cells = function.closure if isinstance(function, FunctionValue) else ()
    return [(cell, machine.realize(cell.content)) for cell in cells if cell.content is not None]


def check_unchanged(machine: Machine, frames: Iterable[FrameState] = ()) -> None:
    """Eager's function runs again on what its operands and variables hold then, and reads nothing that it made before: a graph
    that keeps some of both would see a change before the backward pass otherwise. What came after that is no matter. Of its positional
    operands eager asks that they are unchanged, read or not. `frames` go on after the graph."""
    for position, made, read, operands in machine.checkpoints:
        if is_freed(machine, made):
            continue
        if machine.changes_operands:
            raise Break(ForeignCall("checkpoint", "an operand becomes another view, or loses its history, before the backward pass"))
        if any(
            machine.realize(cell.content) is not content or any(assigns(frame, cell) for frame in frames)
            for cell, content in read
            if cell.content is not None
        ):
            raise Break(ForeignCall("checkpoint", "a variable that it reads is another's before the backward pass"))
        touched = {storage_of(node) for each in made for node in (each, *each.all_input_nodes)}
        touched = (touched | set(map(storage_of, operands))) - {None}
        if any(tensor.example.untyped_storage()._cdata in touched for tensor in machine.tensor_writes[position:]):
            raise Break(ForeignCall("checkpoint", "what it reads or makes is changed before the backward pass"))


def assigns(frame: FrameState, cell: CellValue) -> bool:
    """Whether a frame that goes on has an assignment to the variable, be it done already."""
    names = {name for name, value in frame.slots.items() if value is cell}
    return any(each.opname == "STORE_DEREF" and each.argval in names for each in dis.get_instructions(frame.code))


def is_freed(machine: Machine, made: list[torch.fx.Node]) -> bool:
    examples = (node.meta.get("example_value") for node in made)
    return any(isinstance(each, torch.Tensor) and function_of(each) in machine.freed for each in examples)


def tensors_of(machine: Machine, value: Value) -> list[TensorValue]:
    value = machine.realize(value)
    if isinstance(value, (TupleValue, ListValue)):
        return [tensor for item in elements(machine, value) for tensor in tensors_of(machine, item)]
    if isinstance(value, DictValue):
        return [tensor for _, item in value.items.values() for tensor in tensors_of(machine, item)]
    return [value] if isinstance(value, TensorValue) else []
