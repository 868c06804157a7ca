"""The programs of `gpu_kernels.py`: functions as models hold them, bound by memory, of sizes that no cache holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

BF16, F32 = torch.bfloat16, torch.float32
ROWS = (16384, 4096)


@dataclass(frozen=True)
class Case:
    """`make()` gives arguments. With `backward`, a call also takes the gradients of those of a float type, and the bytes are those of
    both passes by themselves: inputs and results, then inputs, tangents and gradients."""

    name: str
    function: Callable[..., Any]
    make: Callable[[], list[Any]]
    backward: bool = False
    sets: int = 3
    options: dict[str, Any] = field(default_factory=dict)


def normal(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda").to(dtype)


def tokens(*sizes: int, below: int) -> torch.Tensor:
    return torch.randint(0, below, sizes, device="cuda")


def of_rows(dtype: torch.dtype = BF16, count: int = 1, parameters: int = 0, rows: tuple[int, int] = ROWS) -> Callable[[], list[Any]]:
    return lambda: [
        *(normal(*rows, dtype=dtype) for _ in range(count)),
        *(normal(rows[1], dtype=dtype) for _ in range(parameters)),
    ]


def halves(*sizes: Any) -> list[torch.Tensor]:
    return [torch.randn(size, device="cuda").to(BF16) for size in sizes]


def causal(length: int) -> torch.Tensor:
    return ~torch.ones(length, length, dtype=torch.bool, device="cuda").tril()


def classes() -> list[torch.Tensor]:
    return [normal(4096, 50304, dtype=BF16), tokens(4096, below=50304)]


def softmax(x):
    return torch.softmax(x, -1)


def masked_softmax(x, mask):
    return torch.softmax((x * 0.125).masked_fill(mask, float("-inf")), -1)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x, residual, weight):
    h = (x + residual).float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()).to(x.dtype)


def group_norm(x, weight, bias):
    return F.silu(F.group_norm(x, 32, weight, bias))


def bias_gelu(x, residual, bias):
    return F.gelu(x + bias) + residual


def swiglu(x, gate):
    return F.silu(gate) * x


def rotary(q, cos, sin):
    first, second = q.chunk(2, -1)
    return q * cos + torch.cat((-second, first), -1) * sin


def cross_entropy(x, target):
    return F.cross_entropy(x, target)


def dropout_add(x, residual):
    return F.dropout(x, 0.1, True) + residual


def batch_norm(x, weight, bias):
    return F.relu(F.batch_norm(x, None, None, weight, bias, True))


def index_add(x, places, given):
    return x.index_add(0, places, given)


def adam(parameter, gradient, first, second):
    first = first * 0.9 + gradient * 0.1
    second = second * 0.999 + gradient * gradient * 0.001
    return parameter - 1e-3 * first / (second.sqrt() + 1e-8), first, second


CASES = [
    Case("copy f32", lambda x: x.clone(), lambda: [normal(1 << 27)]),
    Case("add f32", lambda x, y: x + y, of_rows(F32, 2)),
    Case("softmax bf16", softmax, of_rows()),
    Case("softmax f32", softmax, of_rows(F32)),
    Case("softmax f32, 1000 columns", softmax, of_rows(F32, rows=(65536, 1000))),
    Case("softmax bf16, 257 columns", softmax, of_rows(rows=(262144, 257))),
    Case("softmax f32, 262144 columns", softmax, of_rows(F32, rows=(256, 262144))),
    Case("scaled masked softmax bf16", masked_softmax, lambda: [normal(64, 1024, 1024, dtype=BF16), causal(1024)]),
    Case("softmax bf16 with backward", softmax, of_rows(), backward=True),
    Case("layer norm bf16", layer_norm, of_rows(parameters=2)),
    Case("layer norm bf16 with backward", layer_norm, of_rows(parameters=2), backward=True),
    Case("RMS norm + residual bf16", rms_norm, of_rows(count=2, parameters=1)),
    Case("RMS norm + residual bf16 with backward", rms_norm, of_rows(count=2, parameters=1), backward=True),
    Case("group norm + SiLU bf16", group_norm, lambda: [normal(16, 512, 64, 64, dtype=BF16), *halves(512, 512)]),
    Case("batch norm + ReLU f32, training", batch_norm, lambda: [normal(64, 256, 56, 56), normal(256), normal(256)], sets=2),
    Case("GELU + bias + residual bf16", bias_gelu, of_rows(count=2, parameters=1)),
    Case("GELU + bias + residual bf16 with backward", bias_gelu, of_rows(count=2, parameters=1), backward=True),
    Case("SwiGLU bf16", swiglu, of_rows(count=2)),
    Case("rotary embedding bf16", rotary, lambda: [normal(8, 32, 2048, 128, dtype=BF16), *halves((2048, 128), (2048, 128))]),
    Case("cross entropy f32, 50304", cross_entropy, lambda: [normal(2048, 50304), tokens(2048, below=50304)]),
    Case("cross entropy bf16, 50304", cross_entropy, classes),
    Case("cross entropy bf16, 50304 with backward", cross_entropy, classes, backward=True),
    Case("dropout + add bf16, the device's numbers", dropout_add, of_rows(count=2), options={"random": "device"}),
    Case("variance of 8 long rows f32", lambda x: x.var(-1), lambda: [normal(8, 1 << 24)]),
    Case("sum f32", lambda x: x.sum(), lambda: [normal(1 << 27)]),
    Case("column sum f32", lambda x: x.sum(0), of_rows(F32)),
    Case("argmax bf16", lambda x: x.argmax(-1), of_rows()),
    Case("cumulative sum f32", lambda x: x.cumsum(-1), of_rows(F32)),
    Case("transpose + add f32", lambda x, y: x.t() + y, lambda: [normal(8192, 8192), normal(8192, 8192)]),
    Case("embedding bf16", lambda table, at: F.embedding(at, table), lambda: [normal(50304, 1024, dtype=BF16), tokens(65536, below=50304)]),
    Case("index add f32", index_add, lambda: [normal(65536, 512), tokens(65536, below=65536), normal(65536, 512)]),
    Case("max pool bf16", lambda x: F.max_pool2d(x, 3, 2, 1), lambda: [normal(64, 64, 112, 112, dtype=BF16)]),
    Case("upsample bf16", lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear") + 1, lambda: [normal(16, 128, 64, 64, dtype=BF16)]),
    Case("Adam f32", adam, lambda: [normal(1 << 25), normal(1 << 25), normal(1 << 25), normal(1 << 25).abs()], sets=2),
]  # fmt: skip
