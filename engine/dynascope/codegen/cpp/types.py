"""C++ names of dtypes, as one element and as a vector of lanes, and constants as text."""

from __future__ import annotations

import math

import torch

ELEMENT: dict[torch.dtype, str] = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "u16", torch.bfloat16: "u16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "mask",
}  # fmt: skip
"""How a value of a dtype is held. f16 and bf16 are held as their bits, bool as a mask of 0 or -1."""

MEMORY = ELEMENT | {torch.bool: "u8"}
"""How it lies in memory."""

WIDE = (torch.float64, torch.int64)


def vector(element: str) -> str:
    return "M" if element == "mask" else element.upper()


def constant(value: bool | int | float, dtype: torch.dtype) -> str:
    """A literal of a dtype."""
    if dtype == torch.bool:
        return "(mask)-1" if value else "(mask)0"
    if dtype in (torch.bfloat16, torch.float16):
        bits = torch.tensor(value, dtype=dtype).view(torch.int16).item() & 0xFFFF
        return f"(u16){bits:#06x} /* {value!r} */"
    if dtype.is_floating_point:
        return _float(float(value), dtype)
    if value == -(2**63):
        return "(-9223372036854775807l - 1)"
    return f"({ELEMENT[dtype]}){value}l" if dtype != torch.int64 else f"{value}l"


def _float(value: float, dtype: torch.dtype) -> str:
    suffix, kind = ("f", "f32") if dtype == torch.float32 else ("", "f64")
    if math.isnan(value):
        return f'({kind})__builtin_nan("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}({kind})__builtin_inf()"
    if dtype == torch.float32:
        value = torch.tensor(value, dtype=torch.float64).to(torch.float32).item()
        if math.isinf(value):
            return _float(value, dtype)
    return f"{value!r}{suffix}"
