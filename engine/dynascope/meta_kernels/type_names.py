"""Types of values in the words that are shown everywhere.

type_of(torch.zeros(8, 64))  ->  "f32[8, 64]"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

ABBREVIATIONS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


def type_of(value: Any, sizes: Sequence[Any] | None = None) -> str:
    """`f32[8, 64]` for a tensor, `int` or `float` for a number. What a subclass of tensors has in place of these attributes may be the
    program's, or raise."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            dtype, shape = torch._C.TensorBase.dtype.__get__(value), torch._C.TensorBase.shape.__get__(value)
        kind = ABBREVIATIONS.get(dtype, str(dtype).removeprefix("torch."))
        return f"{kind}[{', '.join(map(str, shape if sizes is None else sizes))}]"
    if isinstance(value, (tuple, list)):
        return f"tuple[{', '.join(map(type_of, value))}]"
    return "None" if value is None else type(value).__name__
