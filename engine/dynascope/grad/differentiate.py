"""From a captured graph to a forward and a backward graph of functional core ATen.

    x -> tanh(x * w)      forward:  mul, tanh            saved: w, x, tanh
                          backward: tanh_backward as mul/sub, mul, mul

The whole stage on one screen: record the program on meta tensors, let torch's autograd write the backward pass into the
same recording, describe what the outputs are, cut the recording in two, make fx graphs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.at_sizes import for_all_sizes
from dynascope.grad.emit import emit_backward, emit_graphs, emit_joint
from dynascope.grad.gradients import Gradients, describe_gradients
from dynascope.grad.inputs import scope_of
from dynascope.grad.interpret import refusal_within
from dynascope.grad.options import GradOptions
from dynascope.grad.outputs import Overlap, OverlappingInputs, check_inputs, sharing_storages
from dynascope.grad.pair import Computed, GradPair, InputItself, Overwritten, PartialBackward
from dynascope.grad.partition import Parts, partition, recomputed
from dynascope.grad.passes import ends_of, has_no_derivative, inputs_reached, leaves_reached, possible_after
from dynascope.grad.prims import steps_in_prims
from dynascope.grad.program import Program, Recorded, record
from dynascope.grad.reasons import (
    DifferentiationRefused,
    LeafMadeInside,
    OperatorFailed,
    OutputNotReproducible,
    VaryingNumberNeeded,
)
from dynascope.grad.shapes import is_dense
from dynascope.grad.simplify import simplify
from dynascope.grad.tape import Layout, Step, Value, contiguous_strides
from dynascope.grad.trails import Trail
from dynascope.meta_kernels.quiet_torch import without_saved_tensors_hooks

DEFAULT = GradOptions()

Given = bool | tuple[int, ...]
"""Whether a tangent is defined; or the order, outermost first, in which its dimensions lie, where that is not the output's."""


@dataclass(frozen=True, slots=True)
class Joint:
    """One recording of a program and its gradients, before it is cut in two. `steps` are those of the forward pass as they were
    recorded, before any was left out."""

    program: Program
    recorded: Recorded
    steps: list[Step]
    tangents: list[Value]
    gradients: Gradients

    def graph(self) -> fx.GraphModule:
        """Inputs and tangents -> results, new contents of inputs, gradients."""
        return emit_joint(self.recorded, self.tangents, self.gradients, self._at_level)

    def pair(self) -> GradPair:
        recorded, options = self.recorded, self.program.options
        tape, values, results = recorded.recorder.tape, recorded.values, recorded.results
        parts = partition(tape, values, results, self.tangents, self.gradients.values, options)
        parts = Parts(self._at_level(parts.forward), self._at_level(parts.backward), parts.saved)
        pair = emit_graphs(self.program, recorded, self.tangents, self.gradients, parts, self.steps)
        if not self.tangents:
            return pair
        reached = inputs_reached([output for output, _ in results.differentiable], recorded.leaves)
        possible = _possible_after(recorded, (True,) * len(self.tangents))
        return replace(pair, possible_after=possible, reached=reached, overwritten=_overwritten(recorded))

    def _at_level(self, steps: list[Step]) -> list[Step]:
        return steps_in_prims(steps) if self.program.options.level == "prims" else steps


def differentiate(graph: fx.GraphModule, example_inputs: list[Any], options: GradOptions = DEFAULT) -> GradPair:
    """Raises `DifferentiationRefused`, and nothing else, for a program that is not supported."""
    program = Program.of(graph, example_inputs, options)
    check_inputs(program.names, example_inputs)
    program = replace(program, sharing=sharing_storages(example_inputs))
    inputs = list(example_inputs)
    try:
        return joint_of(program, OverlappingInputs(inputs).find).pair()
    finally:
        inputs.clear()  # recordings at several sizes are closures in a cycle, which nobody collects at once


def joint_of(program: Program, overlap: Overlap = lambda index, history: None) -> Joint:
    """Raises `DifferentiationRefused`, and nothing else, for a program that is not supported."""

    def run(program: Program, trail: Trail | None) -> tuple:
        recorded = record(program, overlap, trail)
        _check_leaves(recorded)
        steps = list(recorded.recorder.tape.steps)
        return recorded, steps, *_backward(recorded, (True,) * len(recorded.results.differentiable))

    with without_saved_tensors_hooks():
        joint = Joint(program, *for_all_sizes(program, run))
    recorded = joint.recorded
    reads = _reads(recorded)
    if reads is not None:
        recorded.results.forget_unread(reads)
    simplify(recorded.recorder.tape, recorded.values, recorded.results, joint.gradients.values)
    return joint


def backward_for(pair: GradPair, given: tuple[Given, ...]) -> PartialBackward:
    """The backward pass from the values that `pair` saves, where only some of its tangents are defined.

    A tangent that is not given is undefined, as in eager, not zero: zeros pushed through the derivative of a square root at
    zero are NaN. Gradients lie in memory as the tangents do. Raises `DifferentiationRefused` where this needs a value that was not saved.
    """
    program = pair.program
    assert program is not None
    scope = scope_of(program.inputs)
    relied_on = 0 if scope is None else len(scope.log)

    def run(program: Program, trail: Trail | None) -> tuple:
        recorded = record(program, trail=trail)
        return recorded, list(recorded.recorder.tape.steps), *_backward(recorded, given)

    with without_saved_tensors_hooks():
        recorded, steps, tangents, gradients = for_all_sizes(program, run)
    if scope is not None and len(scope.log) > relied_on:
        raise DifferentiationRefused(VaryingNumberNeeded("what no guard checks", frozenset()))
    if tuple(step.target for step in steps) != pair.steps:
        raise DifferentiationRefused(
            OperatorFailed("the backward pass", "recorded again, the program takes other steps")
        )
    tape = recorded.recorder.tape
    saved = [_saved_value(place.step, place.index, steps, recorded.values) for place in pair.saved]
    simplify(tape, recorded.values, recorded.results, gradients.values)
    parts = Parts([], recomputed(tape, recorded.values, recorded.results, gradients.values, saved, tangents), saved)
    names = {id(value): kept.name for value, kept in zip(saved, pair.saved, strict=True)}
    reads, possible = _reads(recorded), _possible_after(recorded, given)
    partial = emit_backward(tape, parts, tangents, gradients, names)
    return replace(partial, reads=reads, possible_after=possible, overwritten=_overwritten(recorded))


def _possible_after(recorded: Recorded, given: tuple[Given, ...]) -> frozenset[int]:
    return possible_after([output for output, _ in recorded.results.differentiable], given)


def _overwritten(recorded: Recorded) -> tuple[Overwritten, ...]:
    """Each with the inputs that its reader leads to."""
    known: dict[Any, frozenset[int]] = {}
    for _, reader in recorded.recorder.overwritten:
        known.setdefault(reader, leaves_reached([reader], recorded.leaves))
    found = (replace(each, leads_to=known[reader]) for each, reader in recorded.recorder.overwritten)
    return tuple(dict.fromkeys(found))


def _reads(recorded: Recorded) -> frozenset[Computed | InputItself] | None:
    recorder, results = recorded.recorder, recorded.results
    if not recorder.kept:
        return None
    inputs = {InputItself(i) for i in results.kept_inputs if recorder.is_read(recorded.handles[i])}
    outputs = zip(results.differentiable_outputs, results.differentiable, strict=False)
    return frozenset(inputs | {Computed(number) for number, (handle, _) in outputs if recorder.is_read(handle)})


def _check_leaves(recorded: Recorded) -> None:
    """A leaf made inside gets its gradient where a result is one; of one that only results lead to nobody sees the gradient."""
    outputs = [output for output, _ in recorded.results.differentiable]
    if not outputs:
        return
    inputs, number = set(map(id, recorded.leaves)), str(recorded.results.differentiable_outputs[0])
    if has_no_derivative([output.grad_fn for output in outputs]):
        raise DifferentiationRefused(OperatorFailed("backward", "an operator that a result comes from has no derivative"))
    are_reached = bool(inputs_reached(outputs, recorded.leaves))
    is_one = any(output.grad_fn is None and id(output) not in inputs for output in outputs)
    if is_one or (not are_reached and ends_of([output.grad_fn for output in outputs])):
        raise DifferentiationRefused(LeafMadeInside(number))
    if not are_reached:
        raise DifferentiationRefused(OutputNotReproducible(number, "it requires grad, and its history leads to no input"))


def _saved_value(step: int | None, index: int, steps: list[Step], inputs: list[Any]) -> Any:
    return inputs[index] if step is None else steps[step].outputs[index]


def _backward(recorded: Recorded, given: tuple[Given, ...]) -> tuple[list[Value], Gradients]:
    """The values of the tangents that are given, and the inputs' gradients."""
    recorder, leaves, results = recorded.recorder, recorded.leaves, recorded.results
    wanted = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not wanted or not results.differentiable:
        return [], Gradients.none(len(leaves))
    with recorder:
        recorder.start_backward()
        recorder.memory.settle([*leaves, *(output for output, _ in results.differentiable)])
        tangents, handles, outputs = [], [], []
        for number, ((output, value), is_given) in enumerate(zip(results.differentiable, given, strict=True), 1):
            if is_given:
                tangents.append(Value(_tangent_layout(value.layout, is_given), name=f"tangents_{number}"))
                handles.append(recorder.wrap(tangents[-1]))
                outputs.append(output)
        earlier = recorder.memory.storages()
        found = _run_autograd(outputs, handles, [leaves[i] for i in wanted])
        by_input = dict(zip(wanted, found, strict=True))
        return tangents, describe_gradients(recorder, recorded.values, by_input, earlier)


def _tangent_layout(layout: Layout, given: Given = True) -> Layout:
    """As the output, unless its elements share places or leave some out: an element of a tangent has a place of its own."""
    if isinstance(given, tuple):
        steps = dict(zip(given, contiguous_strides(tuple(layout.sizes[d] for d in given)), strict=True))
        return replace(layout, strides=tuple(steps[d] for d in range(len(layout.sizes))))
    if is_dense(layout.sizes, layout.strides):
        return layout
    return replace(layout, strides=contiguous_strides(layout.sizes))


def _run_autograd(outputs: list[torch.Tensor], tangents: list[torch.Tensor], inputs: list[torch.Tensor]) -> Any:
    """`torch.autograd.grad(..., allow_unused=True)` without its checks of the tangents' sizes, which import sympy."""
    engine = torch.autograd.Variable._execution_engine
    try:
        return engine.run_backward(
            tuple(outputs), tuple(tangents), False, False, tuple(inputs), True, accumulate_grad=False
        )
    except DifferentiationRefused:
        raise
    except Exception as error:
        cause = refusal_within(error)
        reason = cause.reason if cause else OperatorFailed("backward", f"{type(error).__name__}: {error}")
        raise DifferentiationRefused(reason) from error
