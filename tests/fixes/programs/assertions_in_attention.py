"""Attention that checks what it is given."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.heads = heads

    def forward(self, x, mask):
        b, n, d = x.shape
        assert mask.dtype == torch.bool
        assert mask.any(dim=-1).all(), "a row has nothing to attend to"
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        weights = scores.softmax(-1)
        assert not torch.isnan(weights).any()
        return (weights @ v).transpose(1, 2).reshape(b, n, d)


torch.manual_seed(0)
attention = torch.compile(Attention())
mask = torch.ones(2, 5, dtype=torch.bool)
mask[1, 3:] = False
attention(torch.randn(2, 5, 8), mask).sum().backward()
