"""Convolutions on GPUs: the library multiplies, kernels do what it would do around that with kernels of its own.

    y = relu(convolution(x, w, b))      ->      m = convolution(x, w); y = relu(m + b)

cuDNN's forward kernels take no bias: torch adds it afterwards, in place, in one more pass over the result. Where the result is to lie
in channels last (`channels_last.py`), so do the operands: the library would turn them itself, at each call.
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import Extent
from dynascope.loops.layouts import ResultLayout, channels_last
from dynascope.loops.lower.rules import LIBRARY, Lowered, Lowering, NotLowered, copy_of, rule, view_of
from dynascope.loops.nodes import Buffer, ExternCall, Node, TensorView
from dynascope.sizes import is_constant, same

aten = torch.ops.aten


@rule(aten.convolution.default)
def convolution(call: Lowering) -> Lowered | NotLowered:
    x, weight, bias, *settings = call.arguments
    (layout,) = call.results
    is_apart = isinstance(bias, TensorView) and not _adds_before_it_rounds(x, settings, layout)
    if call.device.type != "cuda" or call.keywords or not (is_apart or call.turned):
        return NotLowered(LIBRARY)
    nodes: list[Node] = []
    if call.turned is not None:
        x, weight = _lying_last(call, x, "_input", nodes), _lying_last(call, weight, "_weight", nodes)
    name = call.new_name(f"{call.node.name}_without_bias" if is_apart else call.node.name)
    made = Buffer(name, layout.dtype, call.device, layout.shape, layout.strides)
    arguments = x, weight, None if is_apart else bias, *settings
    nodes.append(ExternCall(call.new_name(f"call_{call.node.name}"), call.operator, arguments, {}, (made,), call.origin, LIBRARY))
    if not is_apart:
        return Lowered(tuple(nodes), view_of(made))
    added = _with_bias(call, view_of(made), bias)
    return Lowered((*nodes, *added.nodes), added.value)


@rule(aten.convolution_backward.default)
def convolution_backward(call: Lowering) -> Lowered | NotLowered:
    if call.turned is None:
        return NotLowered(LIBRARY)
    nodes: list[Node] = []
    names = ("_gradient", "_input", "_weight")
    operands = [_lying_last(call, operand, name, nodes) for operand, name in zip(call.arguments[:3], names, strict=True)]
    results = tuple(
        Buffer(call.new_name(f"{call.node.name}_{position}"), layout.dtype, call.device, layout.shape, layout.strides)
        if isinstance(layout, ResultLayout)
        else None
        for position, layout in enumerate(call.results)
    )
    arguments = (*operands, *call.arguments[3:])
    nodes.append(ExternCall(call.new_name(f"call_{call.node.name}"), call.operator, arguments, {}, results, call.origin, LIBRARY))
    return Lowered(tuple(nodes), tuple(result if result is None else view_of(result) for result in results))


def _adds_before_it_rounds(x: TensorView, settings: list[Any], layout: ResultLayout) -> bool:
    """Whether it may be torch's own kernel for one channel at a time, which runs in rows only."""
    transposed, groups = settings[3], settings[-1]
    in_rows = not same(layout.strides, channels_last(layout.shape))
    return in_rows and not transposed and groups > 1 and same(x.sizes[1], groups)


def _lying_last(call: Lowering, operand: TensorView, suffix: str, nodes: list[Node]) -> TensorView:
    """A weight of one channel, or of one place, lies both ways."""
    wanted = channels_last(operand.sizes)
    if same(operand.strides, wanted) or suffix == "_weight" and (_is_one(operand.sizes[1:2]) or _is_one(operand.sizes[2:])):
        return operand
    node, view = copy_of(call, operand, wanted, suffix)
    nodes.append(node)
    return view


def _is_one(sizes: tuple[Extent, ...]) -> bool:
    return all(is_constant(size, 1) for size in sizes)


def _with_bias(call: Lowering, made: TensorView, bias: TensorView) -> Lowered:
    nest = call.nest(made.sizes)
    wide = compute_dtype(made.dtype)
    return call.finish(nest, nest.load(made, nest.indices).cast(wide) + nest.load(bias, nest.indices[1:2]).cast(wide))
