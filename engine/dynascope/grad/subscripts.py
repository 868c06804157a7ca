"""Subscripts of tensors: lists and ranges of positions as constants, and slices as one operator each, whether they cut or not.

    x[1, :n]        slice(x, 1, 0, n)[1, :]        also where `n` is all that there is

Torch leaves out a slice that cuts nothing. Where sizes vary that would be another program at other sizes: of sentences that are
padded to the longest, one fills its row, and which one that is differs from call to call.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

aten = torch.ops.aten


def _index(recorder: Recorder, tensor: Any, index: Any) -> Any:
    found = _prepared(recorder, tensor, index)
    return NotImplemented if found is None else found[0][found[1]]


def _set_index(recorder: Recorder, tensor: Any, index: Any, value: Any) -> Any:
    found = _prepared(recorder, tensor, index)
    if found is None:
        return NotImplemented
    found[0][found[1]] = value
    return None


def _prepared(recorder: Recorder, tensor: Any, index: Any) -> tuple[torch.Tensor, Any] | None:
    """The tensor cut, and what of the subscript is left to torch; None where all of it is."""
    if not isinstance(tensor, torch.Tensor):
        return None
    cut, rest = tensor, index
    if _holds_list(rest):  # on a meta tensor torch would drop their contents
        rest = _with_constants(recorder, rest)
    if recorder.trail is not None:
        cut, rest = _cut(cut, rest)
    return None if rest is index else (cut, rest)


def _holds_list(index: Any) -> bool:
    return isinstance(index, (list, range)) or (isinstance(index, tuple) and any(isinstance(item, SEQUENCES) for item in index))


SEQUENCES = (list, tuple, range)


def _with_constants(recorder: Recorder, index: Any) -> Any:
    if isinstance(index, list) and any(isinstance(item, SEQUENCES) for item in index) and _rows_are_places():
        index = tuple(index)
    if isinstance(index, tuple):
        return tuple(_as_constant(recorder, item) for item in index)
    return _as_constant(recorder, index)


def _as_constant(recorder: Recorder, index: Any) -> Any:
    if not isinstance(index, SEQUENCES) or not _holds_numbers_only(index):
        return index
    with torch.utils._python_dispatch._disable_current_modes():
        positions = torch.tensor(index, dtype=None if index else torch.int64)
    return recorder.constant(positions)


def _holds_numbers_only(index: Any) -> bool:
    return all(type(item) in (int, bool) or isinstance(item, SEQUENCES) and _holds_numbers_only(item) for item in index)


@functools.cache
def _rows_are_places() -> bool:
    """Whether `x[[[0, 1], [1, 2]]]` is `x[[0, 1], [1, 2]]`, as in older versions of torch, or is told one tensor of four places."""
    with torch.utils._python_dispatch._disable_current_modes(), warnings.catch_warnings(action="ignore"):
        return torch.zeros(3, 3)[[[0, 1], [1, 2]]].dim() == 1


def _cut(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, Any]:
    """The slices of a subscript done, and the subscript with `:` in their places. What torch refuses is left to it."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(_is_cut(item) for item in items) or not all(map(_is_understood, items)):
        return tensor, index
    taken = sum(map(_dimensions, items))
    if taken > tensor.dim() or sum(item is Ellipsis for item in items) > 1:
        return tensor, index
    dimension, rest = 0, []
    for item in items:
        if _is_cut(item):
            tensor = aten.slice.Tensor(tensor, dimension, item.start, item.stop, 1 if item.step is None else item.step)
            item = slice(None)
        dimension += tensor.dim() - taken if item is Ellipsis else _dimensions(item)
        rest.append(item)
    return tensor, tuple(rest)


def _is_cut(item: Any) -> bool:
    return isinstance(item, slice) and (item.start, item.stop, item.step) != (None, None, None)


def _is_understood(item: Any) -> bool:
    if isinstance(item, slice):
        bounds = all(bound is None or type(bound) is int for bound in (item.start, item.stop, item.step))
        return bounds and (item.step is None or item.step > 0)
    return item is None or item is Ellipsis or type(item) in (int, bool) or isinstance(item, torch.Tensor)


def _dimensions(item: Any) -> int:
    """How many dimensions of the tensor an item speaks of."""
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return item.dim()
    return int(not (item is None or item is Ellipsis or isinstance(item, bool)))


RULES: dict[Any, Callable[..., Any]] = {
    operator.getitem: _index,
    operator.setitem: _set_index,
    "__getitem__": _index,
    "__setitem__": _set_index,
}
