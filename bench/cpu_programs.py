"""The programs of `cpu_kernels.py`: small functions as models hold them, each memory-bound or nearly so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16


@dataclass(frozen=True)
class Case:
    """`make()` gives the function and its arguments. With `backward`, a call also takes the gradients of the inputs."""

    name: str
    make: Callable[[], tuple[Callable, tuple]]
    backward: bool = False
    deterministic: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def call(self, side: Callable, inputs: tuple) -> Callable[[], object]:
        return self._with_gradients(side, inputs) if self.backward else self._forward(side, inputs)

    def _forward(self, side: Callable, inputs: tuple) -> Callable[[], object]:
        def call():
            with torch.no_grad():
                return side(*inputs)

        return call

    def _with_gradients(self, side: Callable, inputs: tuple) -> Callable[[], object]:
        inputs = tuple(x.clone().requires_grad_() if is_float(x) else x for x in inputs)
        wanted = [x for x in inputs if is_float(x)]
        result = side(*inputs)
        gradient = torch.randn(result.shape, generator=torch.Generator().manual_seed(0))

        def call():
            return torch.autograd.grad(side(*inputs), wanted, gradient)

        return call


def is_float(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def normal(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes).to(dtype)


def softmax(rows: int, columns: int, dtype: torch.dtype = torch.float32):
    return lambda: ((lambda x: x.softmax(-1)), (normal(rows, columns, dtype=dtype),))


def masked_softmax():
    mask = torch.ones(128, 128, dtype=torch.bool).tril()
    return (lambda x, m: x.mul(0.125).masked_fill(~m, float("-inf")).softmax(-1)), (normal(16, 128, 128), mask)


def layer_norm():
    return (lambda x, w, b: F.layer_norm(x, (1024,), w, b)), (normal(512, 1024), normal(1024), normal(1024))


def rms_norm():
    def f(x, residual, w):
        x = x + residual
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, x

    return f, (normal(512, 1024), normal(512, 1024), normal(1024))


def rms_norm_backward():
    f, inputs = rms_norm()
    return (lambda *given: f(*given)[0]), inputs


def cross_entropy():
    return F.cross_entropy, (normal(256, 4096), torch.randint(0, 4096, (256,)))


def dropout():
    return (lambda x, r: F.dropout(x, 0.1, True) + r), (normal(512, 1024), normal(512, 1024))


def gelu(approximate: str):
    return lambda: ((lambda x, b: F.gelu(x + b, approximate=approximate)), (normal(512, 1024), normal(1024)))


def swiglu():
    return (lambda x, y: F.silu(x) * y), (normal(512, 1024), normal(512, 1024))


def rotary():
    def f(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    return f, (normal(4, 8, 256, 64), normal(256, 64), normal(256, 64))


def adam():
    def f(parameters, gradients, first, second):
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)

    sizes = [(256, 256), (256,), (1024, 256), (1024,), (256, 1024)]
    tensors = [[torch.rand(size) for size in sizes] for _ in range(4)]
    return f, tuple(tensors)


def group_norm():
    return (lambda x, w, b: F.silu(F.group_norm(x, 32, w, b))), (normal(8, 128, 32, 32), normal(128), normal(128))


def batch_norm():
    def f(x, m, v, w, b):
        return F.relu(F.batch_norm(x, m, v, w, b, False))

    return f, (normal(8, 64, 32, 32), normal(64), torch.rand(64) + 0.5, normal(64), normal(64))


def batch_norm_training():
    def f(x, w, b):
        return F.relu(F.batch_norm(x, None, None, w, b, True))

    return f, (normal(8, 64, 32, 32), normal(64), normal(64))


def embedding():
    return F.embedding, (torch.randint(0, 4096, (1024,)), normal(4096, 256))


def of(function: Callable, *sizes: int):
    return lambda: (function, (normal(*sizes),))


def transposed_add(rows: int, columns: int):
    return lambda: ((lambda x, y: x.t() + y), (normal(rows, columns), normal(columns, rows)))


CASES = [
    Case("softmax, 48 columns", softmax(4096, 48)),
    Case("softmax, 1000 columns", softmax(512, 1000)),
    Case("softmax, 4096 columns", softmax(128, 4096)),
    Case("softmax bf16, 48 columns", softmax(4096, 48, BF16)),
    Case("softmax bf16, 1000 columns", softmax(512, 1000, BF16)),
    Case("softmax bf16, 4096 columns", softmax(128, 4096, BF16)),
    Case("masked softmax", masked_softmax),
    Case("softmax with backward", softmax(512, 1000), backward=True),
    Case("layer norm", layer_norm),
    Case("layer norm with backward", layer_norm, backward=True),
    Case("RMS norm + residual", rms_norm),
    Case("RMS norm + residual with backward", rms_norm_backward, backward=True),
    Case("cross entropy", cross_entropy),
    Case("cross entropy with backward", cross_entropy, backward=True),
    Case("dropout + residual", dropout, deterministic=False, options={"random": "device"}),
    Case("GELU erf + bias", gelu("none")),
    Case("GELU erf + bias with backward", gelu("none"), backward=True),
    Case("GELU tanh + bias", gelu("tanh")),
    Case("SwiGLU", swiglu),
    Case("SwiGLU with backward", swiglu, backward=True),
    Case("rotary embedding", rotary),
    Case("Adam step", adam, deterministic=False),
    Case("sum of all", of(lambda x: x.sum(), 1024, 1024)),
    Case("row sums", of(lambda x: x.sum(1), 1024, 1024)),
    Case("column sums", of(lambda x: x.sum(0), 1024, 1024)),
    Case("variance of rows", of(lambda x: x.var(1), 1024, 1024)),
    Case("argmax of rows", of(lambda x: x.argmax(1), 1024, 1024)),
    Case("transpose + add, 1024x1024", transposed_add(1024, 1024)),
    Case("transpose + add, 64x100", transposed_add(64, 100)),
    Case("group norm + SiLU", group_norm),
    Case("cumulative sum of rows", of(lambda x: x.cumsum(1) * 2, 512, 1024)),
    Case("batch norm + ReLU, inference", batch_norm),
    Case("batch norm + ReLU, training", batch_norm_training),
    Case("batch norm + ReLU with backward", batch_norm_training, backward=True),
    Case("embedding", embedding),
    Case("embedding with backward", embedding, backward=True),
]


def of_numbers(function: Callable, dtype: torch.dtype, count: int):
    """Of 100,000 numbers between 0 and 1, one or two at a time."""
    return lambda: (function, tuple(torch.rand(100_000).to(dtype) * 0.9 + 0.05 + 0.2 * at for at in range(count)))


ONE = """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh atanh erf erfc sigmoid sqrt rsqrt
""".split()  # noqa: SIM905
TWO = ["atan2", "hypot", "pow", "fmod", "remainder", "floor_divide"]
ACTIVATIONS = ["gelu", "silu", "mish", "softplus"]
FUNCTIONS = [
    Case(f"{name}, {str(dtype).removeprefix('torch.')}", of_numbers(function, dtype, count))
    for dtype in (torch.float32, torch.float64)
    for names, place, count in ((ONE, torch, 1), (ACTIVATIONS, F, 1), (TWO, torch, 2))
    for name, function in ((name, getattr(place, name)) for name in names)
]
"""Functions of numbers alone: how dear the mathematics are."""
