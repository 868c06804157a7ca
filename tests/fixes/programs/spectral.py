"""A weight whose norm is limited."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.limit = 1.5

    def forward(self, x):
        sigma = torch.linalg.matrix_norm(self.weight, 2)
        weight = self.weight
        if sigma.item() > self.limit:
            weight = weight / sigma * self.limit
        return x @ weight


torch.manual_seed(0)
layer = Layer()
f = torch.compile(layer)
for _ in range(2):
    f(torch.randn(3, 6)).sum().backward()
