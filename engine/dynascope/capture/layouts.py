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

ATTENTION = torch.nn.functional.scaled_dot_product_attention.__name__

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


def say_all(tensor: TensorValue) -> bool:
    """Whether strides of dimensions of one element or none are the kernels' too, of which they say nothing: in views of inputs, and
    of what operators make that lay their result out as `torch.empty` does, from operands that lie so."""
    pending, seen = [tensor.node], set()
    while pending:
        node = pending.pop()
        if node in seen or node.op == "placeholder":
            continue
        seen.add(node)
        laid_out_by = _laid_out_by(node)
        if not is_view(node) and not _is_laid_out_anew(node, laid_out_by):
            return False
        pending += laid_out_by
    return True


def _laid_out_by(node: fx.Node) -> list[fx.Node]:
    """The operands whose layout matters: `x.new_zeros(3)` and `y.type_as(x)` ask `x` for its type alone."""
    name = getattr(node.target, "__name__", str(node.target))
    operands = [each for each in node.all_input_nodes if "size" not in each.meta]  # no number: how large it is, is asked of the result
    if name.startswith("new_"):
        return []
    return operands[:1] if name == "type_as" else operands


def is_view(node: fx.Node) -> bool:
    """Whether the result lies in the memory of its one operand, as that is."""
    read, made = [each for each in node.all_input_nodes if "size" not in each.meta], node.meta.get("example_value")
    given = read[0].meta.get("example_value") if len(read) == 1 else None
    if not isinstance(made, torch.Tensor) or not isinstance(given, torch.Tensor):
        return False
    return made.untyped_storage()._cdata == given.untyped_storage()._cdata


def _is_laid_out_anew(node: fx.Node, laid_out_by: list[fx.Node]) -> bool:
    examples = [each.meta.get("example_value") for each in (node, *laid_out_by)]
    if node.op == "get_attr" or not all(isinstance(each, torch.Tensor) for each in examples):
        return False
    called = _operators_of(node)
    is_product = node.target is not torch.empty_like  # the program's own lies as its operand does
    if is_product and called is not None and all(each.overloadpacket.__name__ in PRODUCTS_AND_VIEWS for each in called):
        return True
    if called is None or not all(map(_is_usual, examples)):
        return False
    return all(_is_iterated(each, examples[0]) or each.overloadpacket.__name__ in LAID_OUT_ANEW for each in called)


def _is_iterated(called: Any, made: torch.Tensor) -> bool:
    """TensorIterator multiplies sizes where operands are of several shapes: what has no elements gets strides of 0 then."""
    return _is_pointwise(called) and made.numel() > 0


def _is_usual(example: torch.Tensor) -> bool:
    """Laid out as `torch.empty` does, or with strides that all say something."""
    return all(size > 1 for size in example.shape) or example.stride() == torch.empty(example.shape, device="meta").stride()


_LAID_OUT_ANEW = """
    empty zeros ones full arange new_empty new_zeros new_ones new_full empty_like zeros_like ones_like full_like scalar_tensor
    lift_fresh clone _to_copy copy_ fill_ zero_ constant_pad_nd view _unsafe_view unsqueeze squeeze expand alias detach permute
    transpose slice select empty_permuted t mm addmm bmm baddbmm
    native_layer_norm _softmax _log_softmax bernoulli_ embedding
"""
LAID_OUT_ANEW = frozenset(_LAID_OUT_ANEW.split())
"""Besides pointwise operators, and with the views that are part of a call (`expand` in `masked_fill`)."""

_PRODUCTS_AND_VIEWS = "mm addmm bmm baddbmm t view _unsafe_view unsqueeze squeeze expand transpose permute empty_like"
PRODUCTS_AND_VIEWS = frozenset(_PRODUCTS_AND_VIEWS.split())
"""A product lies as `torch.empty` does, whatever its operands: meta tensors and others ask the same function for that. (`empty_like` is
what stands for an operand.)"""


def _keeps_known(node: fx.Node) -> bool:
    """Whether the strides of a node's result follow, as on meta, from those of its operands."""
    if node.op == "get_attr" or node.target in (operator.getitem, getattr):
        return True
    if isinstance(node.target, HOLDS_GRAPH) or _is_attention_elsewhere(node):
        return False
    called = _operators_of(node)
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


def _is_attention_elsewhere(node: fx.Node) -> bool:
    """Which kernel computes it, and so how its result lies, devices other than the processor choose by themselves; meta tensors compute its
    formula."""
    device = node.meta.get("device")
    return getattr(node.target, "__name__", "") == ATTENTION and device is not None and device.type != "cpu"


def _operators_of(node: fx.Node) -> list[Any] | None:
    target = getattr(torch.Tensor, str(node.target)) if node.op == "call_method" else node.target
    arguments, keywords = fx.map_arg((node.args, node.kwargs), lambda each: each.meta.get("example_value"))
    return operators_called(target, tuple(arguments), dict(keywords))


def _is_promoted(tensors: list[torch.Tensor]) -> bool:
    """Whether an operand is copied to another type first, which makes it dense: meta kernels look at it as it was."""
    is_dense = (torch.empty_like(each).stride() == each.stride() for each in tensors)
    return len({each.dtype for each in tensors}) > 1 and not all(is_dense)


def _is_pointwise(called: Any) -> bool:
    return torch.Tag.pointwise in called.tags
