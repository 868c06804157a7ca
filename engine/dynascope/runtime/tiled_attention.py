"""Attention in tiles on NVIDIA GPUs: which kernels, and how they are launched.

A plan is made for each form of scores, sizes and strides; its kernels' machine code is that of all sizes.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dynascope.codegen.triton.attention import (
    HALVES,
    NARROW,
    STRIDED,
    AttentionForm,
    blocks_kernel,
    columns_kernel,
    forward_kernel,
    lists_kernel,
    padded,
    rows_kernel,
)
from dynascope.codegen.triton.kernel import TritonKernel
from dynascope.codegen.triton.operations import UnknownOperation
from dynascope.dataclass import dataclass
from dynascope.native.toolchain import ToolchainError
from dynascope.runtime.cuda_launch import Launcher, make_launcher
from dynascope.tiled_attention.functions import scores_of
from dynascope.tiled_attention.operators import (
    LIBRARY,
    backward_by_formula,
    forward_by_formula,
    gradient_of,
    shaped,
)

MULTIPLE = 16
"""Numbers that are multiples of it let a kernel read wide."""

Geometry = tuple[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]], ...]
"""Of tensors, by name in `IN_FORWARD` or `IN_BACKWARD` and then of the tables: types, sizes and strides."""

IN_FORWARD = ("query", "key", "value", "result", "ends")
IN_BACKWARD = (*IN_FORWARD, "tangent", "query_gradient", "key_gradient", "value_gradient", "shared")


MOST_KEPT = 1 << 24
_kept: list[torch.Tensor] = []
"""Lists of tiles, of so many bytes in all. None is given back: what other streams and recordings read stays where it is."""


@dataclass(slots=True)
class _Plan:
    """What is the same for all calls of the same sizes and strides."""

    launch: Launcher
    """Makes the lists of tiles, and attends to these."""
    attend: Launcher | None
    """Attends alone. None where a mask reads tables, which may hold others at each call: so may its lists then."""
    code_count: int
    list_counts: tuple[int, int]
    lists: tuple[torch.Tensor, torch.Tensor] | None = None

    def run(self, tensors: Sequence[torch.Tensor]) -> None:
        if self.attend is not None and self.lists is not None:
            self.attend(*tensors, *self.lists)
            return
        device = tensors[0].device
        codes = torch.empty(self.code_count, dtype=torch.uint8, device=device)
        of_rows, of_columns = (torch.empty(count, dtype=torch.int32, device=device) for count in self.list_counts)
        self.launch(*tensors, of_rows, of_columns, codes)
        if self.attend is None or sum(each.nbytes for each in (*_kept, of_rows, of_columns)) > MOST_KEPT:
            return
        with torch.cuda.device(device):
            if not torch.cuda.is_current_stream_capturing():
                torch.cuda.current_stream().synchronize()  # calls on other streams read them too
                _kept.extend((of_rows, of_columns))
                self.lists = of_rows, of_columns


def _is_run(scores: str, scale: float, tensors: Sequence[torch.Tensor], tables: Sequence[torch.Tensor]) -> bool:
    """Whether kernels wrote the results: not where there is nothing to write, or this device has no kernels for it, which is said. Tensors
    that lie at odd addresses get kernels of their own, as everywhere (`cuda_launch`)."""
    if not all(each.numel() for each in tensors):
        return False
    geometry = tuple((each.dtype, each.shape, each.stride()) for each in (*tensors, *tables))
    is_rounded = torch.backends.cuda.matmul.allow_tf32
    plan = _plan(scores, scale, geometry, len(tables), is_rounded, tensors[0].device)
    if plan is not None:
        plan.run((*tensors, *tables))
    return plan is not None


@functools.lru_cache(1024)
def _plan(*told: Any) -> _Plan | None:
    try:
        return _planned(*told)
    except (ToolchainError, UnknownOperation) as error:
        reason = str(error).partition("\n")[0]
        warnings.warn(f"dynascope: attention makes all scores in memory: its kernels could not be built ({reason})", stacklevel=2)
        return None


def _planned(scores: str, scale: float, geometry: Geometry, table_count: int, is_rounded: bool, device: torch.device) -> _Plan:
    of_tensors, of_tables = geometry[: len(geometry) - table_count], geometry[len(geometry) - table_count :]
    is_backward = len(of_tensors) == len(IN_BACKWARD)
    names = IN_BACKWARD if is_backward else IN_FORWARD
    (dtype, (batch, heads, rows, inner), _), (_, (_, groups, columns, _), _), (_, (*_, width), _), *_ = of_tensors
    kinds = tuple((kind, len(sizes)) for kind, sizes, _ in of_tables)
    row_tile, column_tile, warps, stages = _tile(dtype, max(padded(inner), padded(width)), is_backward)
    is_narrow = max(rows, columns) < NARROW
    form = AttentionForm(
        scores_of(scores), dtype, inner, width, kinds, row_tile, column_tile, warps, stages, is_narrow, is_rounded
    )
    row_blocks, column_blocks = -(-rows // row_tile), -(-columns // column_tile)
    of_batch, of_head = form.mask_varies
    mask_heads = heads if of_head else 1
    masks = (batch if of_batch else 1) * mask_heads
    numbers = {
        "row_count": rows,
        "column_count": columns,
        "head_count": heads,
        "repeats": heads // groups,
        "row_blocks": row_blocks,
        "column_blocks": column_blocks,
        "mask_heads": mask_heads,
        "mask_batch_stride": mask_heads if of_batch else 0,
        "mask_head_stride": 1 if of_head else 0,
        "scale": scale,
    }
    for name, (_, _, strides) in zip(names, of_tensors, strict=True):
        numbers |= {f"{name}_stride{place}": stride for place, stride in enumerate(strides[:STRIDED])}
    for number, (_, sizes, strides) in enumerate(of_tables):
        for dimension, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
            numbers |= {f"table{number}_size{dimension}": size, f"table{number}_stride{dimension}": stride}
    pointers = (*names, *(f"table{number}" for number in range(table_count)), "of_rows", "of_columns")
    aligned = {name for name, number in numbers.items() if isinstance(number, int) and number % MULTIPLE == 0}
    told = frozenset({*aligned, *pointers, "codes"})
    listing = [
        blocks_kernel(form, masks * row_blocks * column_blocks, told),
        lists_kernel(form, masks * (row_blocks + column_blocks), told, max(row_blocks, column_blocks)),
    ]
    of_rows, of_columns = batch * heads * row_blocks, batch * groups * column_blocks
    if is_backward:
        attending = [rows_kernel(form, of_rows, told), columns_kernel(form, of_columns, told)]
    else:
        attending = [forward_kernel(form, of_rows, told)]
    launch = _launched([*listing, *attending], (*pointers, "codes"), numbers, device)
    are_kept = not form.scores.mask.indices
    return _Plan(
        launch,
        _launched(attending, pointers, numbers, device) if are_kept else None,
        masks * row_blocks * column_blocks,
        (masks * row_blocks * 2 * (column_blocks + 1), masks * column_blocks * 2 * (row_blocks + 1)),
    )


def _launched(
    kernels: Sequence[TritonKernel], pointers: Sequence[str], numbers: Mapping[str, int | float], device: torch.device
) -> Launcher:
    """A call of these kernels, which is told the tensors."""
    used = {parameter.source for kernel in kernels for parameter in kernel.parameters}
    own = {name: number for name, number in numbers.items() if name in used}
    launch, values = make_launcher(kernels, (*pointers, *own), device), tuple(own.values())
    return lambda *tensors: launch(*tensors, *values)


def _tile(dtype: torch.dtype, longest: int, is_backward: bool) -> tuple[int, int, int, int]:
    """Rows and columns of a tile, warps and stages: what one program's registers and shared memory hold. Of bfloat16 measured on an H200,
    under a window and under changed scores: tiles of 128 rows or columns took 1.1 to 2 times as long, three stages of rows of
    64 up to 1.1 times."""
    if dtype not in HALVES:
        return (64, 32, 4, 2) if longest <= 64 else (32, 32, 4, 1)
    if longest <= 128:
        return (64, 64, 4, 2 if is_backward or longest <= 64 else 3)
    return (32, 32, 4, 1) if is_backward else (64, 32, 4, 2)


def _forward(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
    query, key, value, tables, scores, scale = given
    result, ends = shaped(query, value)
    is_run = _is_run(scores, scale, (*map(_in_rows, (query, key, value)), result, ends), tables)
    return (result, ends) if is_run else forward_by_formula(*given)


def _backward(*given: Any) -> tuple[torch.Tensor, ...]:
    tangent, of_ends, query, key, value, tables, result, ends, scores, scale = given
    if of_ends is None:  # kernels differentiate the result alone
        gradients = tuple(map(gradient_of, (query, key, value)))
        operands = (*map(_in_rows, (query, key, value)), result, ends, _in_rows(tangent), *gradients, torch.empty_like(ends))
        if _is_run(scores, scale, operands, tables):
            return gradients
    return backward_by_formula(*given)


def _in_rows(tensor: torch.Tensor) -> torch.Tensor:
    """With the elements of a row beside one another."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


LIBRARY.impl("tiled_attention", _forward, "CUDA")
LIBRARY.impl("tiled_attention_backward", _backward, "CUDA")
