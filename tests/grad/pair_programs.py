"""Programs that are differentiated and not run: what is kept, cut, written and handed out is read off their pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F


def leaf(*sizes: int, **options: Any) -> torch.Tensor:
    return torch.ones(sizes, **options).requires_grad_()


def plain(*sizes: int, **options: Any) -> torch.Tensor:
    return torch.ones(sizes, **options)


def last(x: torch.Tensor) -> torch.Tensor:
    like = {4: torch.channels_last, 5: torch.channels_last_3d}[x.dim()]
    return x.detach().to(memory_format=like).requires_grad_(x.requires_grad)


def turned(x: torch.Tensor) -> torch.Tensor:
    return x.detach().mT.contiguous().mT.requires_grad_(x.requires_grad)


def written(x, y):
    z = x * 2
    z[1:].copy_(y)
    z.mul_(y.sum())
    z[:, 0].add_(1)
    return z, z.t()


def inputs_written(x, y):
    x.add_(1)
    y[0].mul_(x.sum())
    return x * y


def aliases(x, y):
    z = x.sin()
    return z, z[1:], z.view(-1), x[0], x.t(), y, z.expand(2, 3, 4), x.detach(), z.detach()[..., 0]


def cut_again(x):
    square, diagonal = x.as_strided((2, 2), (4, 1), 1).sin(), x.as_strided((3,), (5,))
    return square, diagonal, x.as_strided((2, 3), (1, 4), 4) * 2, x.as_strided((4, 1), (1, 1), 0), x.as_strided((2, 2), (8, 2), 1)


def some_frozen(x, w, v):
    with torch.no_grad():
        a = (x @ w).relu()
    return (x @ v + a).tanh(), (a * 2).sum(), x.detach() * v.sum()


def twice(x, y):
    a = x * y
    return a.sum() + a.sum(), (x + y).sum(), (x + y).exp().sum(), x.sum() * 0 + y.sum()


def layered(x, w, v):
    for _ in range(3):
        x = F.layer_norm(F.gelu(x @ w), (4,)) + F.dropout(x @ v, 0.25, True)
    return x.softmax(-1)


def attended(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def normed(x, w, b, mean, deviation):
    return F.batch_norm(x, mean, deviation, w, b, True, 0.1), F.group_norm(x, 2, w, b), F.instance_norm(x), F.batch_norm(x, mean, deviation)


def parts(x):
    a, b, c = x.split([1, 2, 1], 1)
    return torch.cat([c, a * 2, b], 1), torch.stack([a.sum(), c.sum()]), x.unbind(0)[1], x.chunk(2)[0].flip(0), x.unfold(0, 2, 1).sum(-1)


def shaped(x):
    again = x.reshape(2, -1).t().reshape(3, 4), x.reshape(6, 2)[::2]
    return *again, x.permute(1, 0).flatten(), x.unsqueeze(1).expand(-1, 3, -1).sum(1), x.mT.mT


def joined(x, y):
    chosen = torch.where(x > y, x, y.double().float()), torch.maximum(x, y), x.clamp(min=y)
    return *chosen, torch.addcmul(x, x, y), x.lerp(y, 0.3), x / y, x**2.5


def read(x, i):
    column = i[:, None]
    found = x[i], x.gather(0, column.expand(-1, 3)), F.embedding(i, x), x.index_select(0, i)
    return *found, x.index_add(0, i, x[i]), x.scatter(0, column, 2.0)


def ordered(x):
    return x.sort(-1)[0], x.topk(2)[0], x.max(-1)[0], x.cumsum(0), x.amax((0, 1)), x.prod(1), x.logsumexp(0), x.var((0,)), x.norm()


def losses(x, t):
    classes = F.cross_entropy(x, t), F.nll_loss(x.log_softmax(1), t, reduction="none")
    return *classes, F.mse_loss(x, x.detach() + 1), F.smooth_l1_loss(x, x * 2)


def pooled(x):
    means = F.avg_pool2d(x, 2, 1, 1), F.adaptive_avg_pool2d(x, 2)
    return F.max_pool2d(x, 2), *means, F.interpolate(x, size=(3, 5), mode="bilinear"), F.pad(x, (1, 2))


def random(x):
    return x * torch.rand_like(x), F.dropout(x, 0.5, True), torch.randn_like(x) * x.sum(), x.detach().bernoulli(0.5) + x


def typed(x, y):
    return (x.double() * y).float(), x.bfloat16() @ y.bfloat16(), x.half() + y, (x > 0) * y, x.to(torch.float64).sum(), x.long().float() + y


CONVOLUTIONS = {
    "plain": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), (leaf(2, 4, 6, 6), leaf(8, 4, 3, 3), leaf(8))),
    "channels last": (lambda x, w, b: F.conv2d(x, w, b).relu(), (last(leaf(2, 4, 6, 6)), leaf(8, 4, 3, 3), leaf(8))),
    "weight channels last": (lambda x, w: F.conv2d(x, w, padding=1), (leaf(2, 4, 6, 6), last(leaf(8, 4, 3, 3)))),
    "groups": (lambda x, w: F.conv2d(x, w, groups=4, dilation=2), (plain(2, 4, 6, 6), last(leaf(8, 1, 3, 3)))),
    "transposed": (lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), (last(leaf(2, 4, 6, 5)), leaf(4, 3, 3, 3), leaf(3))),
    "one dimension": (lambda x, w: F.conv1d(x, w, stride=2), (leaf(2, 4, 9), leaf(8, 4, 3))),
    "one dimension, turned": (lambda x, w: F.conv1d(x, w), (turned(leaf(2, 4, 9)), turned(leaf(8, 4, 3)))),
    "three dimensions": (lambda x, w: F.conv3d(x, w, padding=(1, 0, 1)), (last(leaf(1, 2, 4, 5, 6)), leaf(3, 2, 2, 2, 2))),
    "of doubles": (lambda x, w: F.conv2d(x, w), (last(leaf(1, 2, 4, 4, dtype=torch.float64)), leaf(3, 2, 2, 2, dtype=torch.float64))),
    "of nothing": (lambda x, w: F.conv2d(x, w), (leaf(0, 2, 4, 4), leaf(3, 2, 2, 2))),
}
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    **{f"convolution {name}": program for name, program in CONVOLUTIONS.items()},
    "written": (written, (leaf(3, 4), leaf(2, 4))),
    "inputs written": (inputs_written, (plain(3, 4), plain(3, 4))),
    "aliases": (aliases, (leaf(3, 4), leaf(2))),
    "aliases without gradients": (aliases, (plain(3, 4), plain(2))),
    "cut again": (cut_again, (leaf(4, 4),)),
    "some frozen": (some_frozen, (leaf(3, 4), leaf(4, 4), leaf(4, 4))),
    "frozen weights": (some_frozen, (leaf(3, 4), plain(4, 4), plain(4, 4))),
    "twice": (twice, (leaf(3, 4), leaf(3, 4))),
    "layered": (layered, (leaf(3, 4), leaf(4, 4), leaf(4, 4))),
    "attended": (attended, (leaf(2, 2, 4, 8), leaf(2, 2, 4, 8), leaf(2, 2, 4, 8))),
    "attended, turned": (attended, (turned(leaf(2, 2, 4, 8)), leaf(2, 2, 4, 8), plain(2, 2, 4, 8))),
    "normed": (normed, (leaf(3, 4, 2, 2), leaf(4), leaf(4), plain(4), plain(4))),
    "normed, channels last": (normed, (last(leaf(3, 4, 2, 2)), leaf(4), leaf(4), plain(4), plain(4))),
    "parts": (parts, (leaf(4, 4),)),
    "parts, turned": (parts, (turned(leaf(4, 4)),)),
    "shaped": (shaped, (leaf(4, 3),)),
    "shaped, turned": (shaped, (leaf(12).detach().view(4, 3).mT.contiguous().mT.reshape(4, 3).requires_grad_(),)),
    "joined": (joined, (leaf(3, 4), leaf(4))),
    "joined, turned": (joined, (turned(leaf(3, 4)), leaf(3, 4))),
    "read": (read, (leaf(4, 3), torch.tensor([0, 2, 1, 3]))),
    "ordered": (ordered, (leaf(4, 3),)),
    "losses": (losses, (leaf(4, 3), torch.tensor([0, 2, 1, 1]))),
    "pooled": (pooled, (leaf(2, 3, 4, 4),)),
    "pooled, channels last": (pooled, (last(leaf(2, 3, 4, 4)),)),
    "random": (random, (leaf(3, 4),)),
    "typed": (typed, (leaf(4, 4), leaf(4, 4))),
    "nothing": (joined, (leaf(0, 4), leaf(4))),
    "single": (lambda x: (x.exp(), x[None].expand(3).sum(), x * x), (leaf(),)),
}  # fmt: skip
