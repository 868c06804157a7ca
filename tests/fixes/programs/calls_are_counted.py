"""A module counts its calls in a plain number, to warm up."""

import torch
from torch import nn


class WarmUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * (self.calls / (self.calls + 10))


torch.manual_seed(0)
model = torch.compile(WarmUp())
for _ in range(4):
    model(torch.randn(3, 4)).sum().backward()
