"""What Triton calls each dtype: in a signature, and in the text of a kernel."""

from __future__ import annotations

import torch

SIGNATURE: dict[torch.dtype, str] = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "i1",
}  # fmt: skip

TEXT: dict[torch.dtype, str] = {
    torch.float64: "tl.float64", torch.float32: "tl.float32", torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16", torch.int64: "tl.int64", torch.int32: "tl.int32", torch.int16: "tl.int16",
    torch.int8: "tl.int8", torch.uint8: "tl.uint8", torch.bool: "tl.int1",
}  # fmt: skip

SIXTEEN_BIT_FLOATS = frozenset({torch.float16, torch.bfloat16})


def literal(value: bool | int | float) -> str:
    """A number as it stands in a kernel."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return repr(value)


def typed_constant(value: bool | int | float, dtype: torch.dtype) -> str:
    """A number that has its dtype wherever it is used."""
    number = float(value) if dtype.is_floating_point else int(value)
    return f"tl.full([], {literal(number)}, {TEXT[dtype]})"
