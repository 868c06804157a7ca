"""Programs at the sizes of models, of which plans are made and no numbers computed: their inputs are on the device `meta`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

BF16, F16, F64, INT = torch.bfloat16, torch.float16, torch.float64, torch.int64


def of(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device="meta")


def gradient(function: Callable[..., torch.Tensor], count: int) -> Callable[..., Any]:
    """The loss and the gradients of its first `count` inputs, in one graph."""

    def program(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in inputs[:count]]
            loss = function(*leaves, *inputs[count:])
            return loss.detach(), *torch.autograd.grad(loss, leaves)

    return program


def rotated(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


def adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    m, v = m.lerp(g, 0.1), v * 0.999 + g * g * 0.001
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


def layer(x: torch.Tensor, w: torch.Tensor, scale: float = 1.5) -> torch.Tensor:
    return x + F.gelu(F.layer_norm(x, x.shape[-1:]) @ w) * scale


def layers(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    for w in weights:
        x = layer(x, w)
    return x


def one_other(at: int) -> Callable[..., torch.Tensor]:
    def program(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for number, w in enumerate(weights):
            x = layer(x, w, 0.5 if number == at else 1.5)
        return x

    return program


def first_again(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the first layer made is read in all, and once more behind them."""
    first = layer(x, weights[0])
    for w in weights:
        x = layer(x, w) + first
    return x, x @ weights[1].t() * first


def all_states(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    states = [x]
    for w in weights:
        states.append(layer(states[-1], w))
    return *states[3:9:2], torch.stack(states).sum()


def mirrored(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    states = []
    for number, w in enumerate(weights):
        x = layer(x, w) if number < len(weights) // 2 else layer(x + states.pop(), w)
        states += [x] if number < len(weights) // 2 else []
    return x.mean()


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores = (q @ k.mT * 0.125).masked_fill(mask, float("-inf"))
    return scores.softmax(-1) @ v


def norms(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, F.layer_norm(x, x.shape[-1:], w), x.std(-1)


def totals(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(), x.mean(), x.amax(), (x > 9).any(), x.pow(2).sum().sqrt(), (x * 2).amin()


def parts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.pad(torch.cat([x.exp(), y[:, 8:], x[:, ::2]], 1), (16, 8), value=3.0) * 2


def written_at(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.index_add(0, i, v), x.scatter_add(0, i[:, None].expand_as(v), v * 2), x.index_put((i,), v, accumulate=True)


def read_at(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[i] * 2, F.embedding(i, x).sum(-1), x.index_select(0, i).bfloat16(), F.one_hot(i, x.shape[0]).sum(0)


def pooled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    pads = F.pad(x, (1, 1, 1, 1), mode="reflect")
    means = F.avg_pool2d(pads, 2), F.avg_pool2d(x, (5, 6)), F.adaptive_avg_pool2d(x, 1)
    return F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 5), *means, F.interpolate(x, scale_factor=2.0)


def sides(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(0), x.sum(1), x.t().contiguous() + 1, x.amax((0, 1)), x.t().argmax(0), x.softmax(0)


def ranks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.argmax(-1), x.max(-1), x.argmin(), (x == x.amax(-1, keepdim=True)).any(0), x.cumsum(-1), x.logsumexp(-1)


def types(x: torch.Tensor, n: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.bfloat16() + n, (n * 3 + b).to(torch.int8), x.double() / n, torch.where(b, x.half(), 1.5), n.float().erf(), ~b & (n > 2)


def batch_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(F.batch_norm(x, None, None, w, b, True))


def cross_entropy(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), i)


def perceptron(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, w, b)).matmul(v).square().mean()


def normed(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b).sin().sum()


STACK = (of(256, 128), *(of(128, 128) for _ in range(14)))
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    **{f"pointwise {n}": (lambda x, y: (x * y + 1).tanh(), (of(n), of(n))) for n in (1, 1000, 1 << 20, 1 << 31)},
    "pointwise bf16": (lambda x, y: F.silu(x) * y, (of(4096, 11008, dtype=BF16), of(4096, 11008, dtype=BF16))),
    **{f"softmax {r}x{c}": (lambda x: (x * 2).softmax(-1), (of(r, c),)) for r, c in
       ((7, 3), (64, 33), (1 << 16, 48), (4096, 4096), (64, 50304), (1, 1 << 22))},
    "softmax bf16": (lambda x: x.softmax(-1), (of(16384, 4096, dtype=BF16),)),
    "softmax f64": (lambda x: x.log_softmax(-1), (of(300, 700, dtype=F64),)),
    "norms": (norms, (of(4096, 768), of(768))),
    "norms bf16": (norms, (of(8, 512, 4096, dtype=BF16), of(4096, dtype=BF16))),
    "norms of long rows": (norms, (of(16, 70000), of(70000))),
    "gradients of a norm": (gradient(normed, 3), (of(8192, 768), of(768), of(768))),
    "gradients of a batch norm": (gradient(lambda *given: batch_norm(*given).sin().sum(), 3), (of(32, 64, 28, 28), of(64), of(64))),
    "gradients of a perceptron": (gradient(perceptron, 4), (of(2048, 256), of(1024, 256), of(1024), of(1024, 64))),
    "gradients of attention": (gradient(lambda *given: attention(*given).sum(), 3),
                               (of(2, 8, 256, 64), of(2, 8, 256, 64), of(2, 8, 256, 64), of(256, 256, dtype=torch.bool))),
    "gradients of pooling": (gradient(lambda x: sum(each.sin().sum() for each in pooled(x)), 1), (of(4, 8, 32, 32),)),
    "gradients of an embedding": (gradient(lambda w, i: F.embedding(i, w).sin().sum(), 1), (of(50304, 768), of(4, 512, dtype=INT))),
    "cross entropy": (gradient(cross_entropy, 1), (of(2048, 50304, dtype=BF16), of(2048, dtype=INT))),
    "totals": (totals, (of(1 << 20),)),
    "totals of rows": (totals, (of(513, 1000, dtype=F16),)),
    "sides": (sides, (of(3000, 700),)),
    "sides of few rows": (sides, (of(9, 1 << 18),)),
    "sides of few columns": (sides, (of(1 << 18, 9),)),
    "ranks": (ranks, (of(2048, 1000),)),
    "ranks of whole numbers": (ranks, (of(33, 65, dtype=torch.int32).float(),)),
    "types": (types, (of(1000, 64), of(1000, 64, dtype=torch.int32), of(64, dtype=torch.bool))),
    "parts": (parts, (of(512, 1024), of(512, 1024))),
    "rotary": (lambda x, c, s: x * c + rotated(x) * s, (of(2, 16, 512, 64), of(512, 64), of(512, 64))),
    "rows and columns": (lambda x, y: (x.transpose(1, 2) + y, (x.permute(2, 0, 1) * 2).contiguous()), (of(8, 512, 640), of(8, 640, 512))),
    "turned bf16": (lambda x: (x.t().contiguous(), x.t().float().exp()), (of(4096, 2048, dtype=BF16),)),
    "written at": (written_at, (of(50000, 64), of(2048, dtype=INT), of(2048, 64))),
    "read at": (read_at, (of(5000, 64), of(4096, dtype=INT))),
    "pooled": (pooled, (of(8, 16, 64, 64),)),
    "channels last": (lambda x: (F.relu(x) * 2 + x.mean((2, 3), keepdim=True), x.sum((0, 2, 3))),
                      (of(16, 64, 32, 32).to(memory_format=torch.channels_last),)),
    "optimizer": (lambda *given: [adam(*given[k::3]) for k in range(3)], (of(1000, 300), of(300), of(7, 11, 3)) * 4),
    "equal layers": (layers, (of(256, 128), *[of(128, 128)] * 12)),
    "equal layers of weights of their own": (layers, STACK),
    "gradients of equal layers": (gradient(lambda *given: layers(*given).square().mean(), 15), STACK),
    "equal layers but one": (one_other(6), STACK),
    "equal layers but the first": (one_other(0), STACK),
    "equal layers but the last but one": (one_other(12), STACK),
    "equal layers and the first again": (first_again, STACK),
    "equal layers, all their states": (all_states, STACK),
    "equal layers, mirrored": (mirrored, STACK),
    "scans": (lambda x: (x.cumsum(-1) * 2, x.cumsum(0), x.cumprod(-1)), (of(512, 1024),)),
    "triangles": (lambda x: (x.tril() @ x.triu(1), torch.ones_like(x).tril(-1) * x), (of(300, 300),)),
    "library between kernels": (lambda x, w: torch.relu(x @ w).sort(-1)[0].exp() @ w.t(), (of(128, 256), of(256, 64))),
    "many sums": (lambda x, y: ((x * y).sum(-1), (x - y).pow(2).sum(-1).sqrt(), x.sum(0) * y.sum(0), (x / y).mean()),
                  (of(4000, 300), of(4000, 300))),
    "empty": (lambda x, y: (x + 1, x.sum(0), torch.cat([x, y])), (of(0, 8), of(4, 8))),
    "single": (lambda x: (x.exp().sum(), x[None] * 2), (of(),)),
}  # fmt: skip
