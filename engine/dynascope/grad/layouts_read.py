"""Operands of the backward pass of which an operator reads the layout alone, so that nobody keeps what they hold.

    avg_pool2d_backward(gradient, x, [3, 3], ...)      asks how large `x` is: a tensor of its layout, which holds nothing, stands for it
    convolution_backward(gradient, x, weight, ...)     of a weight that gets no gradient: `x` is read for the gradient of the weight alone

Autograd keeps both. Behind frozen layers of a network that is trained further most of what is kept is this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dynascope.grad.metadata import overloads
from dynascope.grad.operators import is_view
from dynascope.grad.tape import Layout, Number, Origin, Step, Value, leaves

aten = torch.ops.aten

OF_THE_SECOND = frozenset(
    overloads(
        "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward"
        " max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward"
        " fractional_max_pool2d_backward fractional_max_pool3d_backward reflection_pad1d_backward reflection_pad2d_backward"
        " reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward"
    )
)
"""Operators that ask their second operand how large it is, and in which order it lies."""


def layouts_read(step: Step) -> tuple[int, ...]:
    """The places among a step's arguments whose elements it does not read. What comes in from outside of the program is there anyway, and
    a library's call is given it as it is."""
    if step.target in OF_THE_SECOND:
        return (1,)
    if step.target is not aten.convolution_backward.default:
        return ()
    of_input, of_weight, _ = step.arguments[10]
    unread = (place for place, is_wanted in ((1, of_weight), (2, of_input)) if not is_wanted)
    return tuple(place for place in unread if step.arguments[place].step is not None)


def elements_read(step: Step) -> list[Value | Number]:
    """The values and numbers that a step reads, without those of which it reads the layout alone."""
    places = layouts_read(step)
    return leaves([each for place, each in enumerate(step.arguments) if place not in places]) if places else step.inputs()


def with_stand_ins(steps: Sequence[Step], present: Iterable[Any]) -> list[Step]:
    """The steps of a backward pass. Where one reads the layout alone of what is neither `present` nor made there, views of that included,
    a tensor that holds nothing stands in."""
    known = {id(value) for value in present} | {id(output) for step in steps for output in step.outputs}
    written: list[Step] = []
    for step in steps:
        arguments = list(step.arguments)
        for place in layouts_read(step):
            if id(_root_of(arguments[place])) not in known and id(arguments[place]) not in known:
                stand_in = _holding_nothing(arguments[place].layout, step.origin)
                written.append(stand_in)
                (arguments[place],) = stand_in.outputs
        is_changed = any(new is not old for new, old in zip(arguments, step.arguments, strict=True))
        written.append(_with(step, tuple(arguments)) if is_changed else step)
    return written


def _root_of(value: Value) -> Value:
    while value.step is not None and is_view(value.step.target):
        value = value.step.arguments[0]
    return value


def _holding_nothing(layout: Layout, origin: Origin) -> Step:
    keywords = {"dtype": layout.dtype, "device": layout.device}
    step = Step(aten.empty_strided.default, (list(layout.sizes), list(layout.strides)), keywords, origin, "backward")
    step.outputs = (Value(layout, step),)
    return step


def _with(step: Step, arguments: tuple[Any, ...]) -> Step:
    """The same step of other arguments, from which its results come now. The tape keeps its own: the joint graph has all operands."""
    changed = dataclasses.replace(step, arguments=arguments, _found=None)
    for output in step.outputs:
        if output is not None:
            output.step = changed
    return changed
