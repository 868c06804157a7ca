"""Cutting the recording in two: what runs forward, what runs backward, and which values cross.

    forward   h = mm(x, w); a = relu(h)      backward needs a > 0
    saved     h or a, whichever is cheaper to keep; the pointwise rest is computed again in the backward pass

Keeping everything that the backward pass reads would be right too; the minimum cut keeps the fewest bytes such that all
else can be computed again from them by cheap steps. Matmuls, reductions and extern steps are never run twice, and no seed is drawn twice;
numbers made from a seed may be made again. What `keeping.py` says of memory traffic decides between values of about equal size.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.cut import SINK, SOURCE, FlowNetwork
from dynascope.grad.held import held_values, of_what_was_held
from dynascope.grad.keeping import Residence, residence_of
from dynascope.grad.layouts_read import elements_read, with_stand_ins
from dynascope.grad.metadata import overloads
from dynascope.grad.operators import is_view
from dynascope.grad.options import GradOptions
from dynascope.grad.outputs import Results
from dynascope.grad.reasons import DifferentiationRefused, OperatorFailed
from dynascope.grad.simplify import used
from dynascope.grad.tape import Number, Step, Tape, Value, names_of, sizes_in
from dynascope.random_numbers import UNIFORM
from dynascope.sizes import Size

aten = torch.ops.aten

BESIDE_POINTWISE = {
    *overloads("_to_copy clone full arange.start_step arange.start arange tril triu"),
    *overloads("floor_divide floor_divide.Scalar rsub.Tensor special_i0 one_hot"),
    UNIFORM,
}
"""Steps that may run again in the backward pass, as views may and what torch says is pointwise: each element costs a few operations and
reads no neighbour, of places at most its row's."""

DISCOUNT = 8
"""An input that eager keeps too is usually alive anyway (a parameter, the previous layer's output), and so is a result: keeping
them costs less. Others may be changed in place before the backward pass, so that a copy is kept."""

WRITING = 8
"""Writing a value to memory that the forward pass would not write, as a part of keeping it."""


@dataclass(frozen=True, slots=True)
class Parts:
    forward: list[Step]
    backward: list[Step]
    saved: list[Value | Number | Size]


def partition(
    tape: Tape,
    inputs: list[Any],
    results: Results,
    tangents: list[Value],
    gradients: list[Value | None],
    options: GradOptions,
) -> Parts:
    visible = [*results.computed, *(mutated.value for mutated in results.mutated)]
    forward = [step for step in tape.steps if step.phase == "forward"]
    backward = [step for step in tape.steps if step.phase == "backward"]
    border = _read_by_backward(backward, tangents, gradients)
    saved: list[Any] = border
    if options.saving == "minimum-cut":
        saved = _minimum_cut(border, _alive(inputs, results), residence_of(forward), _made_once(forward, inputs, results))
    again = _with_recomputation(with_stand_ins(backward, [*saved, *tangents]), gradients, saved)
    numbers = _numbers_read([(s.arguments, s.keywords, s.outputs) for s in again] + [saved, tangents], inputs)
    return Parts(used(forward, [*visible, *saved]), again, [*saved, *numbers])


def _made_once(forward: list[Step], inputs: list[Any], results: Results) -> set[int]:
    """Values that come out otherwise when the backward pass runs: results that are read where they lie, and what is computed of anything
    that is."""
    read_where_they_lie = {id(results.computed[number]) for number in results.held_outputs}
    return read_where_they_lie | of_what_was_held(forward, held_values(inputs, results, forward))


def _numbers_read(data: Any, inputs: list[Any]) -> list[Size]:
    """The inputs that are numbers of which something is computed, sizes included."""
    given = [(each, names_of([each])) for each in inputs if isinstance(each, Size)]
    missing = frozenset().union(*(names for _, names in given))
    for size in sizes_in(data) if missing else ():
        missing -= names_of([size])
        if not missing:
            break
    return [each for each, names in given if names - missing]


def _read_by_backward(
    backward: list[Step], tangents: list[Value], gradients: list[Value | None]
) -> list[Value | Number]:
    """The forward values that backward steps read, or that are gradients themselves."""
    made = {id(output) for step in backward for output in step.outputs} | {id(tangent) for tangent in tangents}
    found: dict[int, Any] = {}
    for value in [*(v for step in backward for v in elements_read(step)), *(g for g in gradients if g is not None)]:
        if id(value) not in made and not value.name.startswith("constant_"):
            found.setdefault(id(value), value)
    return list(found.values())


def _can_run_again(value: Value | Number) -> bool:
    step = value.step
    if step is None or step.is_random:
        return False
    return isinstance(value, Number) or is_cheap(step.target) or is_view(step.target) or _is_made_again(step)


@functools.cache
def is_cheap(target: Any) -> bool:
    """Of a program's own operators nobody knows what they cost."""
    return target in BESIDE_POINTWISE or (target.namespace == "aten" and torch.Tag.pointwise in target.tags)


def _is_made_again(step: Step) -> bool:
    return step.origin.made_again and not step.has_effect


def _alive(inputs: list[Any], results: Results) -> set[int]:
    """The identities of inputs and results that eager keeps for its own backward pass."""
    alive = {id(inputs[index]) for index in results.kept_inputs}
    return alive | {id(results.computed[number]) for number in results.kept_outputs}


def _cost(value: Value | Number, alive: set[int], residence: Residence) -> int | None:
    """Bytes to keep the value, more where it would be written only to be kept; None where it must not be kept itself (a view: its
    source is kept)."""
    if isinstance(value, Number):
        return 1
    if value.step is not None and (is_view(value.step.target) or _is_made_again(value.step)):
        return None
    if id(value) in alive:
        return value.layout.byte_count // DISCOUNT + 1
    writing = 0 if value.step is not None and id(value) in residence.written else value.layout.byte_count // WRITING
    return value.layout.byte_count + writing + 2


def _minimum_cut(
    border: list[Value | Number], alive: set[int], residence: Residence, once: set[int]
) -> list[Value | Number]:
    """Those made `once` are kept or not needed."""
    network = FlowNetwork()
    entries: dict[int, int] = {}
    values: dict[int, Value | Number] = {}
    pending: list[Value | Number] = []

    def entry_of(value: Value | Number) -> int:
        entry = entries.get(id(value))
        if entry is None:
            again = _can_run_again(value) and id(value) not in residence.streams and id(value) not in once
            cost = _cost(value, alive, residence)
            entry = entries[id(value)] = network.add_value(cost if cost is not None or again else _bytes(value))
            values[entry] = value
            if again:
                pending.append(value)
            else:
                network.add_edge(SOURCE, entry)
        return entry

    for value in border:
        network.add_edge(entry_of(value) + 1, SINK)
    while pending:
        value = pending.pop()
        for operand in value.step.inputs():  # type: ignore[union-attr]
            if not operand.name.startswith("constant_"):
                network.add_edge(entry_of(operand) + 1, entries[id(value)])
    return [values[entry] for entry in network.cut_near_sink()]


def _bytes(value: Value | Number) -> int:
    return value.layout.byte_count + 1 if isinstance(value, Value) else 1


def _with_recomputation(backward: list[Step], gradients: list[Value | None], saved: list[Any]) -> list[Step]:
    """The backward steps, each after the forward steps that it needs again: recomputed values live shortly."""
    present = {id(value) for value in saved}
    written: set[int] = set()
    ordered: list[Step] = []

    def write(step: Step) -> None:
        """Iterative, as chains of cheap steps may be as long as the program."""
        pending = [(step, False)]
        while pending:
            current, ready = pending.pop()
            if id(current) in written:
                continue
            if ready:
                written.add(id(current))
                ordered.append(current)
                continue
            pending.append((current, True))
            needed = [v.step for v in current.inputs() if id(v) not in present and v.step is not None]
            pending += [(needed_step, False) for needed_step in reversed(needed)]

    for step in backward:
        write(step)
    for gradient in gradients:
        if gradient is not None and id(gradient) not in present and gradient.step is not None:
            write(gradient.step)
    return _views_with_their_sources(ordered)


def _views_with_their_sources(steps: list[Step]) -> list[Step]:
    """The views at the end, which give gradients the shape of their inputs, right after what they show: layers stay together."""
    end = len(steps)
    while end and is_view(steps[end - 1].target):
        end -= 1
    made = {id(step) for step in steps}
    views: dict[int, list[Step]] = {}
    first: list[Step] = []
    for step in steps[end:]:
        source = id(step.arguments[0].step)
        (views.setdefault(source, []) if source in made else first).append(step)
    pending, ordered = [*reversed(first), *reversed(steps[:end])], []
    while pending:
        ordered.append(step := pending.pop())
        pending += reversed(views.get(id(step), ()))
    return ordered


def recomputed(
    tape: Tape, inputs: list[Any], results: Results, gradients: list[Value | None], saved: list[Any], tangents: list[Value]
) -> list[Step]:
    """The tape's backward steps, with the forward steps that they need again, where `saved` was chosen before.

    Raises `DifferentiationRefused` where they need a value that neither was saved nor can be computed again.
    """
    backward = [step for step in tape.steps if step.phase == "backward"]
    steps = _with_recomputation(with_stand_ins(backward, [*saved, *tangents]), gradients, saved)
    once = _made_once([step for step in tape.steps if step.phase == "forward"], inputs, results)
    present = {id(value) for value in (*saved, *tangents)}
    for step in steps:
        present |= {id(output) for output in step.outputs}
        lacks = any(id(v) not in present and not v.name.startswith("constant_") for v in step.inputs())
        made_again = [output for output in step.outputs if output is not None] if step.phase == "forward" else ()
        if lacks or not all(_can_run_again(each) and id(each) not in once for each in made_again):
            raise DifferentiationRefused(
                OperatorFailed("backward", f"`{step.target}` needs a value that was not saved")
            )
    return steps


def root_of(node: fx.Node) -> fx.Node:
    """The node whose memory a node of views lies in."""
    while is_view(node.target):
        node = node.args[0]  # type: ignore[assignment]
    return node
