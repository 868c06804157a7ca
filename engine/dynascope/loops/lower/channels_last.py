"""Which results of a graph with convolutions lie in channels last on a GPU, though eager's do not.

    turned_layouts(graph, options)                      ->  Turned({node: its layouts}); without any where nothing would be saved
    turned_pair(forward, backward, saved, options)      ->  the same of both passes, which share what is saved

    x -> convolution -> relu -> convolution -> mean         x is turned once, and nothing is turned back

cuDNN's kernels for tensor cores read channels last and nothing else: of operands in rows it makes copies, at each call, and of the
result too. Of groups it has such kernels for some widths alone; other grouped convolutions stay in rows (`_reads_turned`). A convolution
that reads turned memory gives turned memory; so does what computes element by element from it, and a view of it that torch can take.
Whatever else needs eager's layout reads a copy in that: library calls, views that memory so turned has not, what the program gets.
Where these copies cost more than half of what the convolutions save, nothing is turned. Values are the same, but for the order in which
another kernel of cuDNN's adds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from dataclasses import field
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.loops.layouts import ResultLayout, channels_last, dense, result_layouts
from dynascope.loops.lower.rules import RULES, writes_in_place
from dynascope.loops.lower.views import is_view

aten = torch.ops.aten
Layouts = dict[fx.Node, tuple[Any, ...]]

CONVOLUTIONS = (aten.convolution.default, aten.convolution_backward.default)
TYPES = (torch.bfloat16, torch.float16, torch.float32)
MOST_ELEMENTS = 2**31 - 1
"""Of larger operands torch may choose other kernels, which know rows only."""
WORTH = 0.5
NARROWEST_GROUP = {torch.float16: 4, torch.bfloat16: 4, torch.float32: 8}
"""Channels of a group, in and out, from which on cuDNN has kernels for channels last, where they are a power of two."""
LONGEST_FLOAT32_WINDOW = 5
"""Of one channel a group: the gradients of longer ones take two or three times as long in channels last as in rows."""
GAIN_OF_DEPTHWISE = 3
"""Of one channel a group rows are read by kernels of torch's own: in float32, 3 by 3, those take 3 to 6 times as long as cuDNN's for
channels last (319 and 94 us forward, 591 and 107, 498 and 74 backward on an H200, 64 x 128 x 64 x 64)."""
BESIDE_POINTWISE = frozenset(
    [
        *(aten.cat.default, aten.constant_pad_nd.default, aten._to_copy.default, aten.rsub.Tensor, aten.hardswish.default),
        *(aten.leaky_relu_backward.default, aten.max_pool2d_with_indices.default, aten.avg_pool2d.default),
        *(aten.max_pool2d_with_indices_backward.default, aten.avg_pool2d_backward.default),
        *(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d_backward.default),
        *(aten.upsample_bilinear2d.default, aten.upsample_nearest2d.default, aten._upsample_nearest_exact2d.default),
    ]
)
"""Rules whose results may lie as their operand does. Pointwise ones say of themselves that they are."""


@dataclass(frozen=True)
class Turned:
    """`layouts` are those of results, and of inputs that come so; `loose` the outputs that may lie as they do, for the other pass."""

    layouts: Layouts = field(default_factory=dict)
    loose: frozenset[int] = frozenset()


AS_EAGER = Turned()


def turned_layouts(graph: fx.GraphModule, options: Any) -> Turned:
    """Of a graph that no gradient leads through."""
    plan = _planned(graph, options, _Plan())
    return Turned(plan.layouts) if plan is not None and plan.copied <= WORTH * plan.saved else AS_EAGER


def turned_pair(
    forward: fx.GraphModule, backward: fx.GraphModule, saved: Collection[tuple[int, int]], options: Any
) -> tuple[Turned, Turned]:
    """`saved` are pairs of an output of the forward graph and the input of the backward graph that it becomes, which nobody else sees."""
    loose = frozenset(output for output, _ in saved)
    first = _planned(forward, options, _Plan(loose=loose))
    if first is None:
        return AS_EAGER, AS_EAGER
    (outputs,), inputs = forward.graph.output_node().args, [node for node in backward.graph.nodes if node.op == "placeholder"]
    given = {inputs[place]: first.layouts[outputs[output]] for output, place in saved if outputs[output] in first.layouts}
    second = _planned(backward, options, _Plan(given))
    if second is None or first.copied + second.copied > WORTH * (first.saved + second.saved):
        return AS_EAGER, AS_EAGER
    return Turned(first.layouts, loose), Turned(second.layouts)


def _planned(graph: fx.GraphModule, options: Any, plan: _Plan) -> _Plan | None:
    if options is not None and options.numerics == "strict" or not torch.backends.cudnn.enabled:
        return None
    if not convolves(graph) or writes_in_place(graph):
        return None
    if any("size" in node.meta or node.meta.get("layout") is not None for node in graph.graph.nodes):
        return None
    for node in graph.graph.nodes:
        plan.add(node)
    return plan


def convolves(graph: fx.GraphModule) -> bool:
    """Whether it has convolutions on a GPU."""
    return any(map(_is_convolution, graph.graph.nodes))


def _is_convolution(node: fx.Node) -> bool:
    return node.target in CONVOLUTIONS and getattr(node.args[0].meta.get("device"), "type", None) == "cuda"


class _Plan:
    """`saved` and `copied` are bytes."""

    def __init__(self, given: Layouts | None = None, loose: frozenset[int] = frozenset()) -> None:
        self.layouts: Layouts = dict(given or {})
        self.loose = loose
        self.saved = 0
        self.copied = 0
        self._as_eager: set[fx.Node] = set()

    def add(self, node: fx.Node) -> None:
        read = [operand for operand in node.all_input_nodes if operand in self.layouts]
        if node.op == "output":
            returned = node.args[0] if isinstance(node.args[0], (list, tuple)) else node.args
            self._copy([each for at, each in enumerate(returned) if at not in self.loose and each in read])
        elif node.op == "call_function" and (read or _is_convolution(node)):
            layouts = self._turned(node, read)
            if layouts is not None:
                self.layouts[node] = layouts
            elif reads_as_eager(node) or node.target not in RULES:
                self._copy(read)

    def _copy(self, nodes: list[fx.Node]) -> None:
        """What these hold is needed as eager's lies."""
        for node in map(_holder, nodes):
            if node not in self._as_eager and self.layouts[node] != result_layouts(node):
                self._as_eager.add(node)
                self.copied += _bytes(result_layouts(node))

    def _turned(self, node: fx.Node, read: list[fx.Node]) -> tuple[Any, ...] | None:
        if node.target is operator.getitem:
            return (self.layouts[read[0]][node.args[1]],)
        if _is_convolution(node):
            return self._of_convolution(node) if node.target is aten.convolution.default else self._of_gradients(node)
        if is_view(node.target):
            return self._of_view(node, read)
        if node.target in BESIDE_POINTWISE or node.target in RULES and torch.Tag.pointwise in getattr(node.target, "tags", ()):
            return self._as_operand(node, read)
        return None

    def _of_convolution(self, node: fx.Node) -> tuple[Any, ...] | None:
        x, weight, _, stride, *_, groups = node.args
        (given,), (taken,), (made,) = self._layouts_of(x), result_layouts(weight), result_layouts(node)
        if made.dtype not in TYPES or made.strides == channels_last(made.shape) or not (_may_be_turned(given) and _may_be_turned(made)):
            return None
        if not _reads_turned(given, made, groups):
            return None
        is_last = given.strides == channels_last(given.shape)
        has_places = math.prod(taken.shape[2:]) > 1 or any(step > 1 for step in stride)
        if not is_last and not has_places:
            return None  # a product of matrices, which reads rows as well
        if not is_last:
            self.copied += _bytes((given,))
        if has_places:
            self.saved += _gain(given, groups) * _bytes((given, made))
        return (_last(made),)

    def _of_gradients(self, node: fx.Node) -> tuple[Any, ...] | None:
        """Of a convolution's backward pass, where the forward pass turned its operand or the gradient comes so, or it gains by copies."""
        gradient, x, weight, _, stride, *_, groups, _ = node.args
        (coming,), (given,), (taken,) = self._layouts_of(gradient), self._layouts_of(x), result_layouts(weight)
        if coming.dtype not in TYPES or not (_may_be_turned(coming) and _may_be_turned(given)):
            return None
        if x not in self.layouts and gradient not in self.layouts and _gain(given, groups) == 1:
            return None
        if not _reads_turned(given, coming, groups) or _is_long_depthwise(taken, coming, groups):
            return None
        self.copied += _bytes(tuple(each for each in (coming, given) if each.strides != channels_last(each.shape)))
        if math.prod(taken.shape[2:]) > 1 or any(step > 1 for step in stride):
            self.saved += _gain(given, groups) * 2 * _bytes((coming, given))
        own = result_layouts(node)
        return (*(_last(each) if isinstance(each, ResultLayout) else each for each in own[:2]), own[2])

    def _of_view(self, node: fx.Node, read: list[fx.Node]) -> tuple[Any, ...] | None:
        """As torch takes it of memory that lies so; None where it would have to copy."""
        base, *others = node.args
        if read != [base] or any(isinstance(each, fx.Node) for each in (*others, *node.kwargs.values())):
            return None
        (layout,) = self.layouts[base]
        like = torch.empty_strided(layout.shape, layout.strides, dtype=layout.dtype, device="meta")
        taken = aten.view.default if node.target is aten._unsafe_view.default else node.target
        try:
            views = taken(like, *others, **node.kwargs)
        except RuntimeError:
            return None
        views = views if isinstance(views, (list, tuple)) else (views,)
        return tuple(ResultLayout(tuple(view.shape), tuple(view.stride()), view.dtype) for view in views)

    def _as_operand(self, node: fx.Node, read: list[fx.Node]) -> tuple[Any, ...] | None:
        """In the order of dimensions of the first turned operand that has all of them. Other operands are read across."""
        if node.kwargs.get("memory_format") not in (None, torch.preserve_format):
            return None
        own = result_layouts(node)
        leading = (each for operand in read for each in self.layouts[operand] if isinstance(each, ResultLayout))
        like = next((each for each in leading if _may_lead(each, own[0], node.target)), None)
        if like is None:
            return None
        across = [operand for operand in node.all_input_nodes if operand not in self.layouts]
        self.copied += sum(_bytes(layouts) for operand in across if _has_shape(layouts := result_layouts(operand), own[0].shape))
        return tuple(_ordered(like, each) if isinstance(each, ResultLayout) else each for each in own)

    def _layouts_of(self, node: fx.Node) -> tuple[Any, ...]:
        return self.layouts.get(node) or result_layouts(node)


def _reads_turned(given: ResultLayout, made: ResultLayout, groups: int) -> bool:
    """Whether cuDNN's kernels for channels last are the ones to have. Of 24 or 48 channels a group they take twice as long as those for
    rows with their copies, of two channels up to a hundred times."""
    widths = {given.shape[1] // groups, made.shape[1] // groups}
    return groups == 1 or widths == {1} or all(w >= NARROWEST_GROUP[made.dtype] and w & (w - 1) == 0 for w in widths)


def _gain(given: ResultLayout, groups: int) -> int:
    """What a convolution saves, in copies of what it reads and makes."""
    return GAIN_OF_DEPTHWISE if 1 < groups == given.shape[1] else 1


def _is_long_depthwise(weight: ResultLayout, gradient: ResultLayout, groups: int) -> bool:
    is_long = gradient.dtype == torch.float32 and max(weight.shape[2:]) > LONGEST_FLOAT32_WINDOW
    return is_long and groups > 1 and weight.shape[1] == 1


def reads_as_eager(node: fx.Node) -> bool:
    """Whether a call whose result is not turned needs its operands as eager's lie, though it has a rule."""
    return is_view(node.target) or node.target in CONVOLUTIONS


def _holder(node: fx.Node) -> fx.Node:
    """What a copy is made of: for a view, of that which it is a view of."""
    while node.op == "call_function":
        if node.target is operator.getitem and not is_view(node.args[0].target):
            return node
        if node.target is not operator.getitem and not is_view(node.target):
            return node
        node = node.args[0]
    return node


def _last(layout: ResultLayout) -> ResultLayout:
    return ResultLayout(layout.shape, channels_last(layout.shape), layout.dtype)


def _bytes(layouts: tuple[Any, ...]) -> int:
    return sum(math.prod(layout.shape) * layout.dtype.itemsize for layout in layouts if isinstance(layout, ResultLayout))


def _has_shape(layouts: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    return any(isinstance(layout, ResultLayout) and layout.shape == shape for layout in layouts)


def _may_be_turned(layout: ResultLayout) -> bool:
    """Images whose strides alone say how they lie: those of one channel or of one place lie both ways."""
    if len(layout.shape) != 4 or not 0 < math.prod(layout.shape) <= MOST_ELEMENTS:
        return False
    _, channels, height, width = layout.shape
    return channels > 1 and height * width > 1


def _may_lead(like: ResultLayout, own: ResultLayout, target: Any) -> bool:
    """Whether a result may lie as an operand does: that is dense, and of the result's shape, or of as many dimensions where the operator
    changes sizes."""
    same_shape = len(like.shape) == len(own.shape) if target in BESIDE_POINTWISE else like.shape == own.shape
    return same_shape and like.strides == _ordered(like, like).strides


def _ordered(like: ResultLayout, layout: ResultLayout) -> ResultLayout:
    """Dense, its dimensions one in another as those of `like`."""
    order = sorted(range(len(layout.shape)), key=lambda d: (like.strides[d], -d))
    return ResultLayout(layout.shape, dense(layout.shape, order), layout.dtype)
