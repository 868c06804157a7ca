"""Reading and writing at a few places that are known: lists of numbers as subscripts are slices.

    qkv[..., [-2], :]                 slice(qkv, 2, 12, 13)
    image[:, [2, 1, 0]]               cat([slice(image, 1, 2, 3), slice(image, 1, 1, 2), slice(image, 1, 0, 1)], 1)

Eager has the list's numbers on the processor and sends them to the device at each call; its backward pass sorts them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.decompose.tables import decomposing
from dynascope.grad.metadata import output_layouts
from dynascope.grad.tape import Value
from dynascope.grad.views import with_strides
from dynascope.sizes import Size

aten = torch.ops.aten
TABLE: dict[Any, Callable[..., Any]] = {}
decomposes = decomposing(TABLE)
MOST_PLACES = 4
"""Of more a kernel that reads the places is as good."""


@decomposes(aten.index.Tensor)
def index(b: B, x: Value, indices: Sequence[Value | None]) -> Any:
    known = _known_places(b, x, indices)
    if known is None:
        return NotImplemented
    dimension, places = known
    rows = [b.slice(x, dimension, place, place + 1) for place in places]
    read = b.clone(rows[0]) if len(rows) == 1 else b.op(aten.cat.default, rows, dimension)
    (layout,) = output_layouts(aten.index.Tensor, (x, indices), {})
    return with_strides(b, read, layout.strides)


@decomposes(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(b: B, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Any:
    known = _known_places(b, x, indices)
    if known is None or len(set(known[1])) < len(known[1]) or values.dtype != x.dtype or values.device != x.device:
        return NotImplemented
    dimension, places = known
    sizes = (*x.sizes[:dimension], len(places), *x.sizes[dimension + 1 :])
    values, written = b.expand(values, list(sizes)), x
    for number, place in enumerate(places):
        row = b.slice(values, dimension, number, number + 1)
        if accumulate:
            row = b.add(b.slice(x, dimension, place, place + 1), row)
        written = b.op(aten.slice_scatter.default, written, row, dimension, place, place + 1, 1)
    (layout,) = output_layouts(aten.index_put.default, (x, indices, values, accumulate), {})
    return with_strides(b, written, layout.strides)


def _known_places(b: B, x: Value, indices: Sequence[Value | None]) -> tuple[int, list[int]] | None:
    """The one dimension that is indexed, and where; None where that is not known, or raises."""
    given = [(dimension, index) for dimension, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][0] >= x.rank:
        return None
    dimension, index = given[0]
    size, constant = x.sizes[dimension], b.tape.constants.get(index.name)
    if constant is None or isinstance(size, Size) or constant.dim() != 1 or not 0 < len(constant) <= MOST_PLACES:
        return None
    if constant.dtype in (torch.bool, torch.uint8) or constant.device.type != "cpu":
        return None
    places = constant.tolist()
    return (dimension, [place % size for place in places]) if all(-size <= place < size for place in places) else None
