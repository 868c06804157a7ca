"""The programs that the benchmarks run: each makes a function and its arguments."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class SeedMLP(nn.Module):
    """The MLP of the seeds: one linear layer and a GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(32, 64)

    def forward(self, x):
        return F.gelu(self.fc1(x))


class Block(nn.Module):
    """A transformer block: attention and a feed-forward part, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def add():
    return (lambda a, b: a + b), (torch.randn(8), torch.randn(8))


def seed_mlp():
    return SeedMLP(), (torch.randn(8, 32),)


def mlp10():
    layers = [layer for _ in range(10) for layer in (nn.Linear(16, 16), nn.ReLU())]
    return nn.Sequential(*layers), (torch.randn(4, 16),)


def inputs50():
    def total(*tensors):
        result = tensors[0]
        for tensor in tensors[1:]:
            result = result + tensor
        return result

    return total, tuple(torch.randn(8) for _ in range(50))


def network(name):
    import timm

    return timm.create_model(name, pretrained=False, num_classes=10).train(), (torch.randn(4, 3, 96, 96),)


def transformer2():
    return nn.Sequential(Block(64, 4), Block(64, 4)), (torch.randn(2, 16, 64),)
