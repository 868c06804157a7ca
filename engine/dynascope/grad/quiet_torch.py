"""Calling torch's Python kernels without importing torch._dynamo and sympy.

Three spots of torch import them on first use, for programs that torch itself is tracing:
- `torch._compile._disable_dynamo` wraps nearly all of `torch._refs` and `torch._decomp`. It looks for a ready-made
  wrapper in the attribute `__dynamo_disable` of the function, so one is put there, and taken away afterwards.
- `torch._check` evaluates its condition through `torch.fx.experimental.symbolic_shapes`, though it is a plain bool here.
- `elementwise_dtypes` and `_maybe_broadcast` import sympy for symbolic operands, of which there are none here.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch._meta_registrations
import torch._prims_common as common
import torch._refs

from dynascope.grad.shapes import broadcast

_MARK = "__dynamo_disable"


@contextlib.contextmanager
def without_compiler_imports() -> Iterator[None]:
    """Torch's Python kernels run plainly inside. Nothing is changed where torch._dynamo is loaded already."""
    if "torch._dynamo" in sys.modules or torch._check_with is _plain_check:
        yield
        return
    marked = [function for function in _wrapped_functions() if _MARK not in function.__dict__]
    replaced = [
        (torch, "_check_with", _plain_check),
        (common, "elementwise_dtypes", _plain_elementwise_dtypes),
        (torch._meta_registrations, "elementwise_dtypes", _plain_elementwise_dtypes),
        (torch._refs, "_maybe_broadcast", _plain_maybe_broadcast),
    ]
    originals = [getattr(module, name) for module, name, _ in replaced]
    for function in marked:
        setattr(function, _MARK, function)
    for module, name, plain in replaced:
        setattr(module, name, plain)
    try:
        yield
    finally:
        for (module, name, _), original in zip(replaced, originals, strict=True):
            setattr(module, name, original)
        for function in marked:
            function.__dict__.pop(_MARK, None)


def _plain_check(error_type: type[Exception], condition: bool, message: Any = None) -> None:
    if not condition:
        raise error_type(str(message() if callable(message) else message or "a condition does not hold"))


def _plain_maybe_broadcast(*operands: Any, preserve_cpu_scalar_tensors: object = True) -> tuple[Any, ...]:
    tensors = [operand for operand in operands if isinstance(operand, torch.Tensor)]
    if not tensors:
        return operands
    sizes = broadcast(*(tuple(tensor.shape) for tensor in tensors))
    return tuple(operand.expand(sizes) if isinstance(operand, torch.Tensor) else operand for operand in operands)


_Kind = common.ELEMENTWISE_TYPE_PROMOTION_KIND


def _plain_elementwise_dtypes(*operands: Any, type_promotion_kind: Any) -> tuple[torch.dtype, torch.dtype]:
    """(dtype to compute in, dtype of the result), as torch._prims_common.elementwise_dtypes for concrete operands."""
    present = [operand for operand in operands if operand is not None]
    result = functools.reduce(_join, present[1:], present[0])
    dtype = result.dtype if isinstance(result, torch.Tensor) else _dtype_of_number(result)
    if type_promotion_kind is _Kind.ALWAYS_BOOL:
        return common.get_computation_dtype(dtype), torch.bool
    if type_promotion_kind is _Kind.INT_TO_FLOAT and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    if type_promotion_kind is _Kind.BOOL_TO_LONG and dtype is torch.bool:
        return torch.int64, torch.int64
    computed = common.get_computation_dtype(dtype)
    if type_promotion_kind is _Kind.NO_OPMATH:
        return dtype, dtype
    if type_promotion_kind is _Kind.COMPLEX_TO_FLOAT and dtype.is_complex:
        return computed, dtype.to_real()
    return computed, dtype


def _join(a: Any, b: Any) -> torch.Tensor | int | float:
    """An operand that promotes with others as `a` and `b` together do."""
    tensors = [operand for operand in (a, b) if isinstance(operand, torch.Tensor)]
    if not tensors:
        return a if isinstance(b, bool) or isinstance(a, complex) or (isinstance(a, float) and not isinstance(b, complex)) else b
    rank = max(min(tensor.dim(), 1) for tensor in tensors)
    return torch.empty((1,) * rank, dtype=torch.result_type(a, b), device="meta")


def _dtype_of_number(number: Any) -> torch.dtype:
    return {bool: torch.bool, int: torch.int64, complex: torch.complex64}.get(type(number), torch.get_default_dtype())


@functools.cache
def _wrapped_functions() -> tuple[types.FunctionType, ...]:
    """Every function that `_disable_dynamo` wraps, among the kernels that torch registers and the references they call."""
    pending: list[Any] = []
    for table in torch._decomp.global_decomposition_table.values():
        pending += table.values()
    for name in ("torch._refs", "torch._refs.nn.functional", "torch._refs.special", "torch._refs.linalg", "torch._refs.fft"):
        if name in sys.modules:
            pending += vars(sys.modules[name]).values()
    found: dict[int, types.FunctionType] = {}
    while pending:
        function = pending.pop()
        if isinstance(function, types.FunctionType) and id(function) not in found:
            found[id(function)] = function
            pending += _captured(function)
    return tuple(found.values())


def _captured(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents
