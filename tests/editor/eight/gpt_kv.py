"""A block with a cache of keys and values, decoding token by token."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return x + self.out(y.transpose(1, 2).reshape(b, t, c)), (k, v)


torch.manual_seed(0)
block = torch.compile(Block(32, 4))
cache = None
x = torch.randn(1, 5, 32)
with torch.no_grad():
    for _ in range(6):
        y, cache = block(x, cache)
        x = y[:, -1:]
print("cached", cache[0].shape[2])
