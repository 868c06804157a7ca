"""Facts about dtypes that lowering and code generation share."""

from __future__ import annotations

import math
from functools import cache

import torch

from dynascope.sizes import Size, hint_of

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


def holds(dtype: torch.dtype, number: bool | float | Size) -> bool:
    """Whether eager converts a Python number to `dtype`; for others it raises, or wraps around in its own ways.

    Of a number that varies, this is relied on.
    """
    if dtype == torch.bool or isinstance(number, bool):
        return True
    if not math.isfinite(hint_of(number)):
        return dtype.is_floating_point
    least, greatest = limits(dtype)
    return least <= number <= greatest


@cache
def limits(dtype: torch.dtype) -> tuple[float, float]:
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return limits.min, limits.max
