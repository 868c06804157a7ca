"""Whether what stands for a tensor lies in memory as the tensor will.

    y = F.batch_norm(x.t(), None, None, training=True)
    y.stride()                     (1, 6) on meta, (4, 1) on the CPU: the program asks the real tensor, after a break

Some of torch's meta kernels lay results out in another order than its kernels do. Which, comparing the two over torch's operator
database tells (`tests/capture/test_layouts_asked_for.py`).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions import HOLDS_GRAPH
from dynascope.capture.operators_called import operators_called
from dynascope.capture.values import TensorValue

_ANY_OPERANDS = "_linalg_svd linalg_eig _fft_c2r _fft_r2c _fft_c2c"
ANY_OPERANDS = frozenset(_ANY_OPERANDS.split())
"""Operators whose meta kernels are not to be asked."""

_UNUSUAL_OPERANDS = """
    native_batch_norm _native_batch_norm_legit _batch_norm_with_update convolution replication_pad2d replication_pad3d
    reflection_pad2d reflection_pad3d log_sigmoid_forward max_unpool2d max_unpool3d normal native_dropout_backward
    pixel_shuffle pixel_unshuffle channel_shuffle angle copysign ldexp logaddexp logaddexp2 logical_and logical_or logical_xor
    heaviside xlogy special_xlog1py binary_cross_entropy index index_fill floor_divide div.Tensor_mode cat
"""
UNUSUAL_OPERANDS = frozenset(_UNUSUAL_OPERANDS.split())
"""Operators, or overloads, whose meta kernels are right where all operands are contiguous."""


def are_known(tensor: TensorValue) -> bool:
    """Looks at all that the tensor was computed from."""
    pending, seen = [tensor.node], set()
    while pending:
        node = pending.pop()
        if node in seen or node.op == "placeholder":
            continue
        seen.add(node)
        if "layout_is_known" not in node.meta:
            node.meta["layout_is_known"] = _keeps_known(node)
        if not node.meta["layout_is_known"]:
            return False
        pending += node.all_input_nodes
    return True


def _keeps_known(node: fx.Node) -> bool:
    """Whether the strides of a node's result follow, as on meta, from those of its operands."""
    if node.op == "get_attr" or node.target in (operator.getitem, getattr):
        return True
    if isinstance(node.target, HOLDS_GRAPH):
        return False
    target = getattr(torch.Tensor, str(node.target)) if node.op == "call_method" else node.target
    arguments, keywords = fx.map_arg((node.args, node.kwargs), lambda each: each.meta.get("example_value"))
    called = operators_called(target, tuple(arguments), dict(keywords))
    if called is None:
        return True  # how many elements it has only the run knows: `late_numbers` says what is known of it
    operands = [each.meta.get("example_value") for each in node.all_input_nodes]
    tensors = [each for each in operands if isinstance(each, torch.Tensor)]
    names = {name for each in called for name in (each.overloadpacket.__name__, each.name().removeprefix("aten::"))}
    if names & ANY_OPERANDS:
        return False
    if all(each.is_contiguous() for each in tensors):
        return True
    return not names & UNUSUAL_OPERANDS and not (_is_promoted(tensors) and any(map(_is_pointwise, called)))


def _is_promoted(tensors: list[torch.Tensor]) -> bool:
    """Whether an operand is copied to another type first, which makes it dense: meta kernels look at it as it was."""
    is_dense = (torch.empty_like(each).stride() == each.stride() for each in tensors)
    return len({each.dtype for each in tensors}) > 1 and not all(is_dense)


def _is_pointwise(called: Any) -> bool:
    return torch.Tag.pointwise in called.tags
