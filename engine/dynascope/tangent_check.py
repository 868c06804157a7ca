"""Whether the tangents that autograd hands to a compiled backward pass are what its kernels were made for, asked in C.

    fits = tangents_fit(3, {0: layout, 2: layout})
    fits((tangent, None, tangent))        one call for all of them: type, kind, dtype, device, sizes, strides

None (undefined), subclasses, batches of tangents, tensors without storage and those of other strides do not fit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from dynascope.frame import hook
from dynascope.grad.tangents import fits_in_python, lies_as
from dynascope.grad.tape import Layout, Sizes
from dynascope.guards.tensor_guard import TensorMatches
from dynascope.guards.tensor_layout import expected_tensor, in_clean_thread, tensor_layout


def tangents_fit(count: int, layouts: dict[int, Layout]) -> Callable[[tuple[Any, ...]], bool]:
    """A check of a tuple of `count` tangents, of which those at the keys of `layouts` matter."""
    found = tensor_layout() if hook.is_native() else None
    if found is None:
        return fits_in_python(count, layouts)
    check = hook.OPERATIONS["CHECK_TENSOR"]
    rows = [(check, index, 0, expected_tensor(found, _expected(layout))) for index, layout in layouts.items()]
    program = hook.GuardProgram(count, rows)
    varying = [(index, layout) for index, layout in layouts.items() if layout.varies]
    if not varying:
        return lambda tangents: program.holds(tangents, tangents_fit)
    return lambda tangents: (
        program.holds(tangents, tangents_fit) and all(lies_as(tangents[index], layout) for index, layout in varying)
    )


def _expected(layout: Layout) -> TensorMatches:
    keys = _plain_keys(layout.dtype, layout.device)
    sizes, strides = _constants(layout.sizes), _constants(layout.strides)
    return TensorMatches(torch.Tensor, layout.dtype, layout.device, sizes, strides, False, keys)


def _constants(extents: Sizes) -> tuple[int | None, ...]:
    """None where an extent varies."""
    return tuple(extent if isinstance(extent, int) else None for extent in extents)


@functools.lru_cache(maxsize=256)
def _plain_keys(dtype: torch.dtype, device: torch.device) -> int:
    probe = in_clean_thread(lambda: torch.empty(0, dtype=dtype, device=device))
    return torch._C._dispatch_keys(probe).raw_repr()
