"""Type promotion of operands, with eager's roundings.

x bf16[8] + 1/3   ->   add (cast f32 (load x)) 0.333984375        the number is a bf16 first
x bf16[8] * 1/3   ->   multiply (cast f32 (load x)) 0.33333334    ATen's kernel takes it in its compute type

What is rounded was found by experiment on torch 2.13's CPU kernels, and for CUDA in ATen's sources: there addition and
subtraction take Python numbers in the compute type too.
"""

from __future__ import annotations

from typing import Any, Literal

import torch

from dynascope.loops.body import BodyBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype, holds, short_name
from dynascope.loops.lower.rules import Lowering, Refused
from dynascope.loops.nodes import TensorView
from dynascope.sizes import Size, hint_of

Numbers = Literal["rounded", "unrounded"]


def promoted_element(
    call: Lowering, nest: BodyBuilder, value: Any, dtype: torch.dtype, numbers: Numbers = "rounded"
) -> Scalar:
    """An operand at the nest's own index: in the promoted type `dtype`, then in the type that eager computes in."""
    wide = compute_dtype(dtype)
    if numbers == "unrounded" and is_scalar_operand(call, value):
        return call.scalar(nest, value, nest.indices, wide)
    if numbers == "rounded":
        refuse_overflow(dtype, value)
    return call.scalar(nest, value, nest.indices, dtype).cast(wide)


def is_scalar_operand(call: Lowering, value: Any) -> bool:
    """Python numbers, and on the CPU tensors without dimensions: ATen hands both to a kernel as a scalar of any width."""
    return not isinstance(value, TensorView) or value.buffer in call.numbers or (not value.sizes and call.device.type == "cpu")


def refuse_overflow(dtype: torch.dtype, *values: Any) -> None:
    """Eager raises for numbers that a type has no room for: the library is called to do so."""
    for value in values:
        if isinstance(value, (int, float, Size)) and not holds(dtype, value):
            raise Refused(f"a number that {short_name(dtype)} cannot hold")


def result_dtype(call: Lowering, *_: Any) -> torch.dtype:
    """For operators whose result has the promoted type."""
    return call.results[0].dtype


def operands_dtype(call: Lowering, values: tuple[Any, ...]) -> torch.dtype:
    """Of the operands among themselves, for operators whose result says nothing of it (comparisons)."""
    metas = [_meta_operand(value) for value in values]
    return metas[0].dtype if len(metas) == 1 else torch.result_type(*metas)


def _meta_operand(value: Any) -> Any:
    if isinstance(value, TensorView):
        # What is promoted to depends on whether there are dimensions, not on how long they are.
        return torch.empty((1,) * len(value.sizes), dtype=value.dtype, device="meta")
    if isinstance(value, (bool, int, float, Size)):
        return hint_of(value)
    if value is None or isinstance(value, complex):
        raise Refused(f"an operand is {type(value).__name__}")
    return 1 if value.kind == "int" else 1.0
