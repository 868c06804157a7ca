"""Differentiation inside a graph: `loss.backward()`, `torch.autograd.grad(...)`.

The meta tensors of a capture have histories of their own, by torch's own autograd. So which leaves a loss leads to, whether its
graph was freed before and what each gradient looks like is read off them, and errors are left to plain PyTorch.

    loss.backward()      gradients((loss,), (w, b), (ones,), ...) is a node; w.grad and b.grad are written as the program does it
"""

from __future__ import annotations

import collections
import gc
from typing import TYPE_CHECKING, Any

import torch

from dynascope.autograd_functions import gradients as gradients_of
from dynascope.autograd_functions import names_read
from dynascope.capture.calls import hooks_of_tensors
from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.checkpointing import check_unchanged
from dynascope.capture.calls.inference_mode import keeps_inference_tensors
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.histories import function_of, functions_of, storage_of
from dynascope.capture.numbers_drawn_first import drawn_first
from dynascope.capture.numbers_read_last import waits
from dynascope.capture.protocols import gradient_requirements, gradients, tensor_data
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import BackwardCall, TorchCallFails
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    FALSE,
    NONE,
    CellValue,
    ConstantValue,
    DictValue,
    TensorValue,
    TupleValue,
    Value,
    boolean,
)
from dynascope.frame.resume import resume_origin
from dynascope.guards.guard import IdentityIs, NoneIsAnother
from dynascope.guards.source import AttributeSource
from dynascope.guards.tensor_guard import WrittenAs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
ACCUMULATES = "AccumulateGrad"
GRAD_OPTIONS = ("only_inputs", "allow_unused", "is_grads_batched", "materialize_grads")


@meaning(torch.Tensor.backward)
def backward(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    names = ("tensor", "gradient", "retain_graph", "create_graph", "inputs")
    given = with_names(machine, names, arguments, keywords)
    if not is_none(given["inputs"]):
        raise cannot(machine)
    return accumulate(machine, [given["tensor"]], [given["gradient"]], given["retain_graph"], given["create_graph"])


@meaning(torch.autograd.backward)
def backward_of_several(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
    given = with_names(machine, names, arguments, keywords)
    if not (is_none(given["inputs"]) and is_none(given["grad_variables"])):
        raise cannot(machine)
    tensors = several(machine, given["tensors"])
    tangents = [NONE] * len(tensors) if is_none(given["grad_tensors"]) else several(machine, given["grad_tensors"])
    return accumulate(machine, tensors, tangents, given["retain_graph"], given["create_graph"])


@meaning(torch.autograd.grad)
def grad(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph")
    given = with_names(machine, (*names, *GRAD_OPTIONS), arguments, keywords)
    only_inputs, allow_unused, is_batched, fills = (given[name] for name in GRAD_OPTIONS)
    if not (is_none(only_inputs) or is_true(machine, only_inputs)) or is_true(machine, is_batched):
        raise cannot(machine)
    is_filled = is_true(machine, fills)
    if is_filled and (is_true(machine, given["create_graph"]) or not is_none(allow_unused)):
        raise cannot(machine)
    allows_unused = is_filled or is_true(machine, allow_unused)
    outputs, inputs = several(machine, given["outputs"]), several(machine, given["inputs"])
    tangents = [NONE] * len(outputs) if is_none(given["grad_outputs"]) else several(machine, given["grad_outputs"])
    if any(getattr(value, "object", None) is not None for value in inputs):
        if has_outside_history(machine, outputs):
            raise cannot(machine)  # which may lead to these inputs too
        guard_apart(machine, outputs, inputs)
    for value in inputs:
        if isinstance(value, TensorValue) and value.object is not None:
            guard_no_hooks(machine, value, HOOKS[:1])  # the other is run where a gradient is accumulated
    found = differentiate(machine, outputs, inputs, tangents, given["retain_graph"], given["create_graph"])
    if not allows_unused and any(map(is_none, found)):
        raise Break(TorchCallFails(machine.expression(), "an input was not used"))
    if is_filled:
        found = [
            apply_function(machine, torch.zeros_like, [value], {"requires_grad": FALSE}) if is_none(each) else each
            for value, each in zip(inputs, found, strict=True)
        ]
    return TupleValue(tuple(found))


def accumulate(
    machine: Machine, tensors: list[Value], tangents: list[Value], retain: Value, create: Value
) -> Value:
    """Differentiates by all leaves, and adds what it finds to their gradients, as autograd does: in place where there is one."""
    if is_true(machine, create) or torch.distributed.is_available() and torch.distributed.is_initialized():
        raise cannot(machine)
    leaves = leaves_of(machine, tensors)
    gradient_requirements.check_unchanged(machine, leaves)
    for leaf in leaves:
        if leaf.object is not None:
            guard_no_hooks(machine, leaf)
            if not accumulates_plainly(leaf.object):
                raise cannot(machine)
    before = [gradients.read(machine, leaf) for leaf in leaves]
    if any(isinstance(present, TensorValue) and present.example.requires_grad for present in before):
        raise cannot(machine)  # what is added to it is no part of its history
    kept = list(machine.kept_gradients)
    found = differentiate(machine, tensors, [*leaves, *kept], tangents, retain, create)
    for tensor, gradient in zip(kept, found[len(leaves) :], strict=True):
        if not is_none(gradient):
            hooks_of_tensors.keep_gradient(machine, tensor, gradient)
    shared = collections.Counter(map(storage_of, machine.graph.graph.nodes))
    for leaf, gradient, present in zip(leaves, found, before, strict=False):
        if is_none(gradient):
            continue
        references = references_if_view_of_tangent(gradient, found, tangents)
        if gradient.example.requires_grad:  # a tangent, as the program gave it
            gradient = apply_method(machine, torch.Tensor.detach, [gradient], {})
            shared[storage_of(gradient.node)] += 1
        if isinstance(present, TensorValue):
            apply_method(machine, torch.Tensor.add_, [present, gradient], {})
            continue
        if references > 1 and is_laid_out_as(gradient.example, leaf.example):
            raise cannot(machine)  # the leaf that autograd comes to last takes it
        if references == 1:
            is_own = True
        else:
            is_own = shared[storage_of(gradient.node)] == 1 and not gradient.example.storage_offset()
        gradients.write(machine, leaf, of_its_own(machine, leaf, gradient, is_own))
    return NONE


def differentiate(
    machine: Machine, outputs: list[Value], inputs: list[Value], tangents: list[Value], retain: Value, create: Value
) -> list[Value]:
    tensor_data.check_differentiated(machine)
    if machine.leaves_left:
        ends = {id(variable) for variable in variables_of(machine, outputs)}
        if any(id(leaf.example) in ends for leaf in machine.leaves_left):
            raise cannot(machine)
    check_unchanged(machine)
    check_names_read(machine)
    creates = is_true(machine, create)
    if runs_hooks(machine, inputs) or not machine.options.differentiates or len(outputs) != len(tangents):
        raise cannot(machine)
    if has_parts(machine) and not leads_through_parts(machine, inputs, creates):
        raise cannot(machine)
    for value in (*outputs, *inputs):
        if not isinstance(value, TensorValue) or not value.example.requires_grad:
            raise cannot(machine)
    if keeps_inference_tensors(machine):
        raise cannot(machine)
    keeps = creates if is_none(retain) else is_true(machine, retain)
    seeds = [tangent_of(machine, output, tangent) for output, tangent in zip(outputs, tangents, strict=True)]
    entered = functions_entered([value.example for value in outputs], [value.example for value in inputs])
    arguments = [*map(TupleValue, (tuple(outputs), tuple(inputs), tuple(seeds))), boolean(keeps), boolean(creates)]
    found = apply_function(machine, gradients_of, arguments, {})
    if not keeps:
        machine.journal.set(machine, "freed", machine.freed | entered)
    return [machine.realize(item) for item in found.items]


def runs_hooks(machine: Machine, inputs: list[Value]) -> bool:
    """Whether hooks that are put on tensors when the graph has run would belong into this pass. A kept gradient is known where the
    pass is asked for it and the tensor has still the history that the program kept it of."""
    known = [tensor for tensor in machine.kept_gradients if any(tensor is each for each in inputs)]
    is_unwritten = all(tensor.example._version == version for tensor, version in machine.hooked)
    return len(known) < len(machine.hooked) or not is_unwritten


def check_names_read(machine: Machine) -> None:
    """The program may have changed what a backward pass was captured with; the name itself is written when the graph has run, and so
    is a dictionary, whichever it is."""
    written = {name for _, name in machine.global_writes}
    written |= {value.name for value in machine.written if isinstance(value, CellValue)}
    writes_entries = any(isinstance(value, DictValue) for value in machine.written)
    for name in names_read(machine.graph) if written or writes_entries else ():
        root, bracket, _ = name.name.partition("[")
        if root.rpartition(".")[2] in written or (bracket and writes_entries):
            raise cannot(machine)


def has_parts(machine: Machine) -> bool:
    """Whether the graph will run as a row of parts before this. Numbers that nothing but Python has read so far are read out of
    their tensors later, and those that Python draws are drawn before the rest."""
    late = [node for node in machine.graph.graph.nodes if "late" in node.meta]
    known = {str(node.meta["size"]) for node in late if "size" in node.meta}
    first = drawn_first(machine.graph) if late else []
    return not machine.sizes.scope.late <= known or not all(node in first or waits(node, machine.graph.kept) for node in late)


def leads_through_parts(machine: Machine, inputs: list[Value], creates: bool) -> bool:
    """Whether autograd finds its way through the parts, each of which is a node to it: by what came in, and once."""
    from_outside = all(isinstance(value, TensorValue) and value.node.op == "placeholder" for value in inputs)
    again = any(node.target is gradients_of and node.args[-1] for node in machine.graph.graph.nodes)
    return from_outside and not creates and not again


def functions_entered(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> set[Any]:
    """Autograd's functions that a pass from the one to the other runs, and frees: those that lead to an input."""
    functions = functions_of(outputs)
    ends = {function_of(each) for each in inputs} - {None}
    leaves = {id(each) for each in inputs}
    ends |= {each for each in functions if type(each).__name__ == ACCUMULATES and id(each.variable) in leaves}
    entered: set[Any] = set()
    for function in sorted(functions, key=lambda each: each._sequence_nr()):  # each after what it leads to
        if any(following in ends or following in entered for following, _ in function.next_functions):
            entered.add(function)
    return entered


def tangent_of(machine: Machine, output: TensorValue, tangent: Value) -> Value:
    if isinstance(tangent, TensorValue):
        if tangent.example.shape != output.example.shape:
            raise cannot(machine)
        return tangent
    if not is_none(tangent) or output.example.numel() != 1 or not output.example.is_floating_point():
        raise cannot(machine)
    return apply_function(machine, torch.ones_like, [output], {})


def leaves_of(machine: Machine, tensors: list[Value]) -> list[TensorValue]:
    """The leaves that the tensors were computed from: each comes from outside, and its history ends there, or is one made inside."""
    given = [*machine.outside.by_identity.values(), *machine.leaves_made]
    known = {id(value.example): value for value in given if isinstance(value, TensorValue)}
    found = {id(variable) for variable in variables_of(machine, tensors)}
    if not found <= known.keys():  # made inside as a leaf that may leave, or what stands for a history before this graph
        is_resumed = resume_origin(machine.frames[0].function.code) is not None
        begins = "inside" if not has_outside_history(machine, tensors) else "at a break" if is_resumed else "at the call"
        raise Break(BackwardCall(machine.expression(), begins))
    return [value for identity, value in known.items() if identity in found]


def has_outside_history(machine: Machine, tensors: list[Value]) -> bool:
    """Whether the tensors come from results of what ran before this graph, whose leaves are not known here."""
    examples = {id(node.meta.get("example_value")) for node in machine.graph.graph.nodes}
    return any(id(variable) not in examples for variable in variables_of(machine, tensors))


def variables_of(machine: Machine, tensors: list[Value]) -> list[torch.Tensor]:
    """The leaves at which the tensors' histories end."""
    values = [machine.realize(tensor) for tensor in tensors]
    examples = [value.example for value in values if isinstance(value, TensorValue)]
    ends = [function.variable for function in functions_of(examples) if type(function).__name__ == ACCUMULATES]
    return [*ends, *(each for each in examples if each.requires_grad and each.is_leaf)]


def guard_apart(machine: Machine, outputs: list[Value], inputs: list[Value]) -> None:
    """That what comes in has no history at later calls either, and is as many tensors: one that comes of another one, or is it, would
    lead to that too."""
    ends = {id(variable) for variable in variables_of(machine, outputs)}
    ends |= {id(value.example) for value in inputs if isinstance(value, TensorValue)}
    outside = {id(value): value for value in machine.outside.by_identity.values()}.values()
    leaves = [value for value in outside if isinstance(value, TensorValue) and id(value.example) in ends]
    for leaf in leaves:
        machine.guards.add(leaf.source, WrittenAs.of(leaf.object))
    if len(leaves) > 1:
        machine.guards.add_group(tuple(leaf.source for leaf in leaves), NoneIsAnother())


def guard_no_hooks(machine: Machine, leaf: TensorValue, names: tuple[str, ...] = HOOKS) -> None:
    for name in names:
        if getattr(leaf.object, name, None) is not None:
            raise cannot(machine)
        machine.guards.add(AttributeSource(leaf.source, name), IdentityIs(None))


def accumulates_plainly(leaf: torch.Tensor) -> bool:
    """Whether the node of autograd's that adds to the leaf's gradient has no hooks and is for tensors of the leaf's shape, which is
    another one where `leaf.data = other` came after it was made. Who puts a hook on it keeps it: torch lists its hooks to the collector
    of garbage, unless a graph that is alive leads there."""
    if not leaf.requires_grad:  # it will, when the graph has run
        return True
    with torch.inference_mode(False), torch.enable_grad(), torch._C.DisableTorchFunction():
        node = leaf.view_as(leaf).grad_fn.next_functions[0][0]
    if node is None:  # nothing adds to the gradient of a view that was made without gradients
        return False
    (metadata,) = node._input_metadata
    return tuple(metadata.shape) == leaf.shape and not any(gc.get_referents(node))


def references_if_view_of_tangent(gradient: Value, found: list[Value], tangents: list[Value]) -> int:
    """How many leaves get this very object, if it is a view of a tangent that the program gave: autograd takes what nothing else
    refers to, and such a view too. The tangent itself it does not take."""
    given = [each for each in tangents if isinstance(each, TensorValue)]
    if not isinstance(gradient, TensorValue) or any(each.example is gradient.example for each in given):
        return 0
    if all(storage_of(each.node) != storage_of(gradient.node) for each in given):
        return 0
    return sum(each.example is gradient.example for each in found if isinstance(each, TensorValue))


def is_laid_out_as(gradient: torch.Tensor, leaf: torch.Tensor) -> bool:
    """Whether autograd takes it for the leaf's gradient as it lies (torch/csrc/autograd/functions/accumulate_grad.h)."""
    is_dense = torch.ops.aten.is_non_overlapping_and_dense(leaf)
    return gradient.stride() == leaf.stride() if is_dense else gradient.is_contiguous()


def of_its_own(machine: Machine, leaf: TensorValue, gradient: TensorValue, is_own: bool) -> TensorValue:
    """A gradient becomes that of a leaf: in memory of its own, laid out as the leaf. Where it is that already, autograd takes it as
    it is. `is_own` says that nobody else has its memory, or that autograd does not mind."""
    one, other = leaf.example, gradient.example
    if is_laid_out_as(other, one) and gradient.object is None and is_own:
        return gradient
    if not torch.ops.aten.is_non_overlapping_and_dense(one) or one.is_contiguous():
        contiguous = {"memory_format": ConstantValue(torch.contiguous_format)}
        return apply_method(machine, torch.Tensor.clone, [gradient], contiguous)
    made = apply_function(machine, torch.empty_like, [leaf], {"requires_grad": FALSE})
    return apply_method(machine, torch.Tensor.copy_, [made, gradient], {})


# Arguments


def with_names(machine: Machine, names: tuple[str, ...], arguments: Arguments, keywords: Keywords) -> dict[str, Value]:
    if len(arguments) > len(names) or not keywords.keys() <= set(names):
        raise cannot(machine)
    given = dict.fromkeys(names, NONE) | dict(zip(names, arguments, strict=False)) | keywords
    return {name: machine.realize(value) for name, value in given.items()}


def several(machine: Machine, value: Value) -> list[Value]:
    """`torch.autograd` takes a tensor, or makes a tuple of whatever it is given: `weights.values()`, `model.parameters()`."""
    is_one = issubclass(value.python_type, (torch.Tensor, torch.autograd.graph.GradientEdge))
    items = [value] if is_one else elements(machine, value)
    return [machine.realize(item) for item in items]


def is_true(machine: Machine, value: Value) -> bool:
    return bool(machine.object_of(value))


def cannot(machine: Machine) -> Break:
    return Break(BackwardCall(machine.expression()))
