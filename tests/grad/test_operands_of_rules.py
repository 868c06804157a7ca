"""The rules of layouts beside the library itself: each call with one operand made another. What the library takes the rules take, and
lay results out alike; of what it refuses they refuse most, and capture has found the rest before."""

from __future__ import annotations

import pytest
import torch
from dynascope.grad.metadata import RULES, output_layouts
from dynascope.grad.reasons import DifferentiationRefused
from dynascope.grad.tape import Layout, Value, layout_of
from torch.utils._pytree import tree_flatten, tree_unflatten

aten = torch.ops.aten
ERRORS = (RuntimeError, IndexError, ValueError, NotImplementedError, AssertionError, TypeError)


def of(*sizes, dtype=torch.float32):
    return torch.ones(sizes, dtype=dtype)


IMAGES = of(2, 4, 6, 5)
AT = torch.tensor([[0, 1], [2, 0]])
VOLUMES = [1] * 3, [0] * 3, [1] * 3
CALLS = {
    "convolution": (aten.convolution.default, (IMAGES, of(6, 4, 3, 2), of(6), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
    "convolution of groups": (aten.convolution.default, (IMAGES, of(6, 2, 3, 3), None, [2, 1], [1, 2], [2, 1], False, [0, 0], 2)),
    "convolution transposed": (aten.convolution.default, (IMAGES, of(4, 3, 3, 2), of(3), [2, 3], [1, 0], [1, 2], True, [1, 1], 1)),
    "convolution of rows": (aten.convolution.default, (of(2, 4, 9), of(6, 4, 3), of(6), [2], [1], [1], False, [0], 1)),
    "convolution of volumes": (aten.convolution.default, (of(1, 2, 4, 5, 4), of(3, 2, 2, 2, 1), None, *VOLUMES, False, [0] * 3, 1)),
    "mm": (aten.mm.default, (of(3, 4), of(4, 5))),
    "addmm": (aten.addmm.default, (of(5), of(3, 4), of(4, 5))),
    "addmm of a matrix": (aten.addmm.default, (of(3, 1), of(3, 4), of(4, 5))),
    "bmm": (aten.bmm.default, (of(2, 3, 4), of(2, 4, 5))),
    "cat": (aten.cat.default, ([of(2, 3), of(4, 3), of(1, 3)], 0)),
    "cat along the last": (aten.cat.default, ([of(2, 3, 2), of(2, 3, 4)], -1)),
    "cat of images": (aten.cat.default, ([of(2, 3, 4, 5), of(2, 1, 4, 5)], 1)),
    "add": (aten.add.Tensor, (of(3, 1, 4), of(2, 1))),
    "where": (aten.where.self, (of(3, 4, dtype=torch.bool), of(3, 4), of(4))),
    "sum": (aten.sum.dim_IntList, (IMAGES, [1, -1], False)),
    "sum kept": (aten.sum.dim_IntList, (IMAGES, [0, 2], True)),
    "mean": (aten.mean.dim, (IMAGES, [2, 3], True)),
    "amax": (aten.amax.default, (of(3, 4), [1])),
    "var": (aten.var.correction, (of(3, 4), [0]), {"correction": 1}),
    "softmax": (aten._softmax.default, (of(3, 4, 5), 1, False)),
    "sort": (aten.sort.default, (of(3, 4), -1)),
    "topk": (aten.topk.default, (of(3, 4), 2, 0)),
    "cumsum": (aten.cumsum.default, (of(3, 4), 1)),
    "gather": (aten.gather.default, (of(3, 4), 1, AT)),
    "index_select": (aten.index_select.default, (of(3, 4), 0, torch.tensor([0, 2]))),
    "index": (aten.index.Tensor, (of(3, 4, 5), [AT, None, torch.tensor([0, 1])])),
    "index_put": (aten.index_put.default, (of(3, 4), [torch.tensor([0, 2])], of(2, 4))),
    "embedding": (aten.embedding.default, (of(3, 4), AT)),
    "max_pool2d": (aten.max_pool2d_with_indices.default, (IMAGES, [3, 2], [2, 1], [1, 1])),
    "avg_pool2d": (aten.avg_pool2d.default, (IMAGES, [3, 2], [2, 1], [1, 0])),
    "im2col": (aten.im2col.default, (IMAGES, [3, 2], [1, 1], [1, 0], [2, 1])),
    "col2im": (aten.col2im.default, (of(2, 24, 20), [6, 5], [3, 2], [1, 1], [0, 0], [1, 1])),
    "layer norm": (aten.native_layer_norm.default, (of(2, 3, 4), [4], of(4), of(4), 1e-5)),
    "batch norm": (aten.native_batch_norm.default, (IMAGES, of(4), of(4), of(4), of(4), True, 0.1, 1e-5)),
    "group norm": (aten.native_group_norm.default, (IMAGES, of(4), of(4), 2, 4, 30, 2, 1e-5)),
    "pad": (aten.constant_pad_nd.default, (IMAGES, [1, 2, 0, 1], 0.5)),
    "flip": (aten.flip.default, (of(3, 4, 5), [0, -1])),
    "nearest": (aten.upsample_nearest2d.default, (IMAGES, [7, 9])),
    "bilinear": (aten.upsample_bilinear2d.default, (IMAGES, [7, 9], False)),
    "tril": (aten.tril.default, (of(3, 4),)),
    "clone": (aten.clone.default, (IMAGES,)),
    "clone in rows": (aten.clone.default, (IMAGES,), {"memory_format": torch.contiguous_format}),
    "zeros_like": (aten.zeros_like.default, (IMAGES,)),
}  # fmt: skip


def lengthened(x, dimension):
    return torch.cat([x, x.narrow(dimension, 0, 1)], dimension)


OTHERS = {
    "as it is": lambda x: x,
    "less one dimension": lambda x: x[0],
    "one dimension more": lambda x: x[None],
    "longer": lambda x: lengthened(x, 0),
    "longer behind": lambda x: lengthened(x, -1),
    "longer in the middle": lambda x: lengthened(x, 1),
    "of one": lambda x: x[:1],
    "of one behind": lambda x: x[..., :1],
    "of none": lambda x: x[:0],
    "of none behind": lambda x: x[..., :0],
    "of none in the middle": lambda x: x[:, :0],
    "of doubles": lambda x: x.double(),
    "of halves": lambda x: x.bfloat16(),
    "of whole numbers": lambda x: x.int(),
    "turned": lambda x: x.mT.contiguous().mT,
    "wholly turned": lambda x: x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim()))),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "in steps": lambda x: torch.stack([x, x], -1)[..., 0],
    "expanded": lambda x: x[:1].expand(x.shape),
}


def layouts(target, arguments, keywords):
    """Of a call's results, as far as they can be seen; None where it is refused."""
    try:
        made = target(*arguments, **keywords)
    except ERRORS:
        return None
    results = made if isinstance(made, (list, tuple)) else [made]
    return [seen(layout_of(each, each.device)) for each in results if isinstance(each, torch.Tensor)]


def predicted(target, arguments, keywords):
    leaves, structure = tree_flatten((arguments, keywords))
    values = [Value(layout_of(each, each.device)) if isinstance(each, torch.Tensor) else each for each in leaves]
    arguments, keywords = tree_unflatten(values, structure)
    try:
        found = output_layouts(target, tuple(arguments), keywords)
    except (DifferentiationRefused, IndexError):
        return None
    return [seen(each) for each in found if isinstance(each, Layout)]


def seen(layout):
    """Strides of what has one element or none say nothing, nor does memory of a result without elements."""
    strides = [stride for size, stride in zip(layout.sizes, layout.strides, strict=True) if size > 1]
    return layout.dtype, tuple(layout.sizes), strides if 0 not in layout.sizes else []


ONLY_THE_LIBRARY_TAKES = {("group norm", 0, "one dimension more"), ("nearest", 0, "of none")}
LEFT_TO_CAPTURE = {
    "convolution": 16, "convolution of groups": 5, "convolution transposed": 15, "convolution of rows": 16,
    "convolution of volumes": 3, "where": 3, "mean": 1, "amax": 2, "var": 1, "softmax": 1, "gather": 11, "index_select": 6,
    "index": 10, "index_put": 31, "embedding": 6, "avg_pool2d": 1, "im2col": 1, "layer norm": 7, "batch norm": 21,
    "group norm": 15, "nearest": 1, "bilinear": 4,
}  # fmt: skip
"""How many calls that the library refuses a rule lets pass at most: a newer one refuses fewer."""


@pytest.mark.parametrize("name", CALLS)
def test_each_takes_what_the_library_takes(name):
    target, arguments, *keywords = CALLS[name]
    leaves, structure = tree_flatten((arguments, keywords[0] if keywords else {}))
    left = 0
    for at, leaf in enumerate(leaves):
        for other, change in OTHERS.items() if isinstance(leaf, torch.Tensor) else ():
            try:
                changed = tree_unflatten([*leaves[:at], change(leaf), *leaves[at + 1 :]], structure)
            except (RuntimeError, IndexError):
                continue  # what has no such dimension
            mine, theirs = predicted(target, *changed), layouts(target, *changed)
            if theirs is None:
                left += mine is not None
            elif (name, at, other) not in ONLY_THE_LIBRARY_TAKES:
                assert mine == theirs, f"operand {at} {other}"
    assert left <= LEFT_TO_CAPTURE.get(name, 0)


def test_most_of_them_have_rules():
    assert sum(target in RULES for target, *_ in CALLS.values()) > len(CALLS) // 2
