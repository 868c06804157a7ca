"""Pooling under a mask which may be all false."""

import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, mask):
        pooled = []
        for row, keep in zip(x, mask, strict=False):
            if keep.any():
                pooled.append(row[keep].mean(0))
            else:
                pooled.append(torch.zeros(x.shape[-1]))
        return self.proj(torch.stack(pooled))


torch.manual_seed(0)
pool = torch.compile(Pool())
mask = torch.tensor([[True, True, False], [False, False, False]])
pool(torch.randn(2, 3, 4), mask).sum().backward()
