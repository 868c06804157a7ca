"""Max pooling, whose places in a plane its backward pass reads: they are kept in as few bytes as the plane needs.

    values, places i64 = max_pool2d_with_indices(x f32[32, 64, 112, 112], ...)      ->      places.to(i16).to(i64)

Both conversions may run again in the backward pass, so that what lies between them is kept. Nothing is converted twice where the
places themselves are a result.
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.decompose.tables import Decomposition, decomposing
from dynascope.grad.tape import Value
from dynascope.sizes import known

aten = torch.ops.aten

TABLE: dict[Any, Decomposition] = {}
decomposes = decomposing(TABLE)


@decomposes(aten.max_pool2d_with_indices.default)
def _max_pool(b: B, x: Value, *arguments: Any) -> tuple[Value, Value]:
    values, places = b.undecomposed(aten.max_pool2d_with_indices.default, x, *arguments)
    count = x.sizes[-1] * x.sizes[-2]
    narrow = next((dtype for dtype in (torch.int16, torch.int32) if known("<=", count, torch.iinfo(dtype).max)), None)
    if narrow is None or not x.dtype.is_floating_point:
        return values, places
    return values, b.convert(b.convert(places, narrow), places.dtype)
