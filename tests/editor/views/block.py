"""A block with a residual path, differentiated."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        hidden = F.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)


torch.manual_seed(0)
block = torch.compile(Block(64))
for step in range(2):
    loss = block(torch.randn(32, 64)).square().mean()
    loss.backward()
    print(f"step {step}: {loss.item():.3f}")
