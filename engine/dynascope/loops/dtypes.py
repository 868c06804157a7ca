"""Facts about dtypes that lowering and code generation share."""

from __future__ import annotations

import torch

SHORT_NAMES: dict[torch.dtype, str] = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip
"""The dtypes that loops compute with. Every other dtype goes through extern calls."""

COMPUTED_IN: dict[torch.dtype, torch.dtype] = {torch.bfloat16: torch.float32, torch.float16: torch.float32}
"""Storage types whose arithmetic eager does in a wider type, rounding at the end of each operator."""


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    return COMPUTED_IN.get(dtype, dtype)


def is_lowered(dtype: torch.dtype) -> bool:
    return dtype in SHORT_NAMES


def short_name(dtype: torch.dtype) -> str:
    """`f32`; the torch name without prefix for dtypes that only pass through."""
    return SHORT_NAMES.get(dtype) or str(dtype).removeprefix("torch.")


def accumulator_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which eager adds up values of a type: wide floats as they are, integers and bool as int64."""
    if dtype.is_floating_point:
        return compute_dtype(dtype)
    return torch.int64
