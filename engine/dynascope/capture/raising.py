"""Which operators can raise for what a tensor holds: an index out of range, a singular matrix, an integer divided by zero.

may_raise(node)        it cannot be ruled out
raises_unused(node)    so the program depends on it even where nobody reads its result
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

from dynascope.autograd_functions import HOLDS_GRAPH, gradients
from dynascope.capture.clocks import Reading
from dynascope.capture.histories import storage_of
from dynascope.capture.host_draws import HostDraw
from dynascope.capture.operators_called import TORCHS_OWN

# Operators that raise for sizes and types only, which the guards hold fixed. Others may raise for what a tensor holds.
_BY_SIZE = """
    abs add addmm addcmul addcdiv adaptive_avg_pool1d adaptive_avg_pool2d all amax amin and_ any arange argmax argmin argwhere
    binary_cross_entropy_with_logits
    avg_pool1d avg_pool2d baddbmm batch_norm bmm cat celu chunk clamp clamp_max clamp_min clone contiguous conv1d
    conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d copy cos cumsum detach div dropout elu empty
    empty_like eq exp expand expand_as fill flatten flip float floordiv full full_like ge gelu getattr group_norm gt
    item nonzero numel size tolist unique unique_consecutive
    half hardsigmoid hardswish hardtanh instance_norm int interpolate invert layer_norm le leaky_relu linear log
    log_softmax logical_and logical_not logical_or long logsumexp lt masked_fill matmul max max_pool1d max_pool2d
    maximum mean min minimum mish mm mod mse_loss mul narrow ne neg norm normalize not_ ones ones_like or_ pad permute
    pos pow prod rand rand_like randn randn_like reciprocal relu relu6 repeat reshape rms_norm roll rot90 rsqrt rsub
    scaled_dot_product_attention select selu sigmoid sign silu sin softmax softplus split sqrt square squeeze stack
    std sub sum t tan tanh tensor_split tile to transpose tril triu truediv type type_as unbind unflatten unsqueeze
    var view view_as where xor zero zeros zeros_like
    around_part from_local full_tensor parallel_layernorm parallel_linear redistribute to_local
"""
NEVER_RAISES = frozenset(_BY_SIZE.split()) | {gradients.__name__}

_PLACES = (operator.getitem, operator.setitem, "__getitem__", "__setitem__")

LOOKS = (
    "index",
    "gather",
    "scatter",
    "embedding",
    "take",
    "nll_loss",
    "cross_entropy",
    "one_hot",
    "multinomial",
    "bernoulli",
)
LOOKS += (
    "bincount",
    "inv",
    "solve",
    "cholesky",
    "lu_factor",
    "eig",
    "svd",
    "lstsq",
    "matrix_power",
    "quantile",
    "ctc",
    "linalg",
    "searchsorted",
    "bucketize",
    "hist",
    "multi_margin",
    "multilabel_margin",
)
"""Parts of the names of operators that do look at values, and refuse some."""
QUOTIENTS = frozenset(["div", "divide", "floor_divide", "floordiv", "fmod", "mod", "remainder", "rfloordiv", "rmod"])


_OVERWRITES = "bernoulli cauchy copy exponential fill geometric log_normal normal random uniform zero"
OVERWRITES = frozenset(f"{name}_" for name in _OVERWRITES.split())
"""Methods that write all of their tensor without reading it."""


def is_written_over(node: fx.Node, needed: Collection[fx.Node]) -> bool:
    """Whether a whole result is written over before anything reads it that is needed."""
    user = next((user for user in node.users if user in needed), None)
    return user is not None and user.op == "call_method" and overwrites(user) and user.args[0] is node


def overwrites(node: fx.Node) -> bool:
    """Whether a write reads nothing of what was there: by a method, `y[:] = x`, or `out=y`."""
    if node.op == "call_method":
        return node.target in OVERWRITES
    if node.target is operator.setitem:
        index = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        return all(each is ... or isinstance(each, slice) and each == slice(None) for each in index)
    return "out" in node.kwargs


def overwrites_all(node: fx.Node) -> bool:
    """Whether a write leaves nothing of what was in that memory, and nothing that it reads lies there."""
    written = node.meta.get("writes", ())
    if len(written) != 1 or not overwrites(node):
        return False
    example, memory = written[0].meta["example_value"], storage_of(written[0])
    if example.numel() * example.element_size() < example.untyped_storage().nbytes():
        return False
    return all(other is written[0] or storage_of(other) != memory for other in node.all_input_nodes)


_CLASSES_OF_FLOATS = frozenset({"isfinite", "isinf", "isnan", "isneginf", "isposinf"})


def values_read(node: fx.Node) -> list[fx.Node]:
    """The inputs of which more is read than what they are: of the first one of `zeros_like`, `new_ones` and, for integers,
    `isnan` nothing is, nor of what is counted as written."""
    if node.target is torch.autograd.graph.increment_version:
        return []
    read, name = node.all_input_nodes, operator_name(node)
    example = getattr(node.args[0], "meta", {}).get("example_value") if node.args else None
    is_of_integers = isinstance(example, torch.Tensor) and not (example.is_floating_point() or example.is_complex())
    if name.endswith("_like") or name.startswith("new_") or name in _CLASSES_OF_FLOATS and is_of_integers:
        return [other for other in read if other is not node.args[0]]
    return read


def operator_name(node: fx.Node) -> str:
    """Of in-place forms the plain name."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    plain = name.strip("_") if name.startswith("__") else name.removesuffix("_")
    return (
        plain.removeprefix("i") if getattr(operator, name, None) is node.target and plain not in NEVER_RAISES else plain
    )


def may_raise(node: fx.Node) -> bool:
    """Whether the values in a tensor can make the operator raise."""
    if node.op not in ("call_function", "call_method"):
        return False
    if any(asks(node) for asks in OF_NUMBERS):
        return True
    if isinstance(node.target, HostDraw):
        return bool(node.all_input_nodes) and not node.target.of_copy
    if isinstance(node.target, Reading):
        return False
    if node.target in _PLACES:
        return holds_tensor(node.args[1])
    if isinstance(node.target, HOLDS_GRAPH):
        return any(map(may_raise, node.target.forward.graph.nodes))
    return operator_name(node) not in NEVER_RAISES or divides_integers(node)


def divides_integers(node: fx.Node) -> bool:
    """Whether integers are divided by what may be zero: the processor refuses that."""
    result, name = node.meta.get("example_value"), operator_name(node)
    if name not in QUOTIENTS or not isinstance(result, torch.Tensor) or result.is_floating_point() or result.is_complex():
        return False
    divisor = node.args[1] if len(node.args) > 1 else node.kwargs.get("other")
    return name in ("rfloordiv", "rmod") or not (type(divisor) is int and divisor != 0)


@functools.cache
def only_computes(name: str) -> bool:
    """Whether every operator of the name makes each element of its result from the elements at the same place, or a view: what the
    elements are, none of these refuses, but where `divides_integers`."""
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, OpOverloadPacket):
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    plain = [each for each in overloads if not each._schema.is_mutable and _takes_tensors(each)]
    return bool(plain) and all(torch.Tag.pointwise in each.tags or each.is_view for each in plain)


def _takes_tensors(operator: OpOverload) -> bool:
    return any("Tensor" in str(argument.type) for argument in operator._schema.arguments)


def places_late_number(node: fx.Node) -> bool:
    """Whether a size or place is a number that only the run of the graph knows, which may be one that there is none of."""
    numbers = [other for other in node.all_input_nodes if "late" in other.meta and "size" in other.meta]
    return any(other.meta["size"].kind is int for other in numbers) and operator_name(node) not in OF_ELEMENTS


def is_set_by_number(node: fx.Node) -> bool:
    """Whether a float that varies is a setting of the operator, which may refuse some (`F.dropout(x, p)`, `F.celu(x, alpha)`). Of ints
    the guards say the range in which it does not."""
    numbers = [other.meta["size"] for other in node.all_input_nodes if "size" in other.meta]
    return any(size.kind is float for size in numbers) and operator_name(node) not in OF_ELEMENTS | FILLED


def reduces_late_size(node: fx.Node) -> bool:
    """Whether something is reduced of which there may be no element."""
    return operator_name(node) in REDUCTIONS and "may_be_empty" in node.meta


def may_lack_an_answer(node: fx.Node) -> bool:
    """Whether it is a function of a number that only the run knows, and has no answer for some (`int(loss.item())`)."""
    return "may_lack_an_answer" in node.meta


OF_NUMBERS = (places_late_number, reduces_late_size, is_set_by_number, may_lack_an_answer)


def relates_late_size(node: fx.Node) -> bool:
    """Whether a tensor of as many elements as turn out to qualify has to fit another one, or a shape or place that is asked for."""
    tensors = [each for each in node.all_input_nodes if getattr(each.meta.get("example_value"), "ndim", 0) > 0]
    if not any("late" in each.meta or "may_be_empty" in each.meta for each in tensors):
        return False
    return len(tensors) > 1 or node.target in _PLACES or operator_name(node) in _FITTED


_FITTED = frozenset(["view", "reshape", "unflatten", "expand", "narrow", "select", "split", "chunk", "tensor_split", "unfold"])
_OF_ELEMENTS = """
    add sub mul div truediv floordiv mod pow rsub eq ne lt le gt ge clamp clamp_min clamp_max maximum minimum where fill masked_fill
    lerp addcmul addcdiv neg float int size item tolist _check
"""
OF_ELEMENTS = frozenset(_OF_ELEMENTS.split())
"""They take a number as any other element."""
FILLED = frozenset({"full", "full_like", "new_full"})
_REDUCTIONS = "max min amax amin argmax argmin aminmax median nanmedian mode kthvalue cummax cummin"
REDUCTIONS = frozenset(_REDUCTIONS.split())


def holds_tensor(index: Any) -> bool:
    found: list[fx.Node] = []
    fx.map_arg(index, found.append)
    return any(isinstance(node.meta.get("example_value"), torch.Tensor) for node in found)


def raises_unused(node: fx.Node) -> bool:
    """What sizes, strides and types do not allow is raised at once on every device. For values a GPU's error comes later, in words of its
    own, and stops all that follows: nothing there depends on it."""
    device = node.meta.get("device")
    is_elsewhere = device is not None and device.type != "cpu"
    if isinstance(node.target, HOLDS_GRAPH):
        return any(map(refused_by_real_tensors_only if is_elsewhere else raises_unused, node.target.forward.graph.nodes))
    if refused_by_real_tensors_only(node):
        return True
    if is_elsewhere:
        return False
    if node.op in ("call_function", "call_method") and relates_late_size(node):
        return True
    if not may_raise(node):
        return False
    if any(asks(node) for asks in OF_NUMBERS):
        return True
    name = operator_name(node)
    if node.target in _PLACES or divides_integers(node) or any(part in name for part in LOOKS):
        return True
    return bool(values_read(node)) and not only_computes(name)


def raises_unread(nodes: Sequence[fx.Node], outputs: Collection[fx.Node]) -> bool:
    """Whether one of the nodes can raise and none of these outputs comes of it: a graph of its own would leave it out."""
    read = set(outputs)
    for node in reversed(nodes):
        if node in read or node.meta.get("writes"):
            read.update(node.all_input_nodes)
        elif raises_unused(node):
            return True
    return False


def stops_device(node: fx.Node) -> bool:
    """Whether a value that the operator refuses ends all work on its device, for good: its kernel is what looks at it."""
    device = node.meta.get("device")
    if device is None or device.type == "cpu" or node.op not in ("call_function", "call_method"):
        return False
    if isinstance(node.target, HOLDS_GRAPH):
        return any(map(stops_device, node.target.forward.graph.nodes))
    if node.target in _PLACES:
        return holds_tensor(node.args[1])
    is_operator, name = isinstance(node.target, OpOverload | OpOverloadPacket), operator_name(node)
    is_of_program = is_operator and str(node.target).partition(".")[0] not in TORCHS_OWN
    return is_of_program or (name not in NEVER_RAISES and any(part in name for part in LOOKS))


def refused_by_real_tensors_only(node: fx.Node) -> bool:
    """Calls that meta tensors take without asking what real ones are asked: whether a reduction has something to reduce, two
    factors are of one type (under autocast above all), a view stays inside its memory."""
    if node.op not in ("call_function", "call_method"):
        return False
    examples = [each.meta.get("example_value") for each in node.all_input_nodes]
    tensors = [each for each in examples if isinstance(each, torch.Tensor)]
    if any(each.numel() == 0 for each in tensors):
        return True
    name = operator_name(node)
    return name == "as_strided" or (name in PRODUCTS and len({each.dtype for each in tensors}) > 1)


PRODUCTS = frozenset(
    ["mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "addmv", "addbmm", "mv", "dot", "einsum", "bilinear"]
)
