"""A layer that warns once when its inputs are large."""

import warnings

import torch
from torch import nn


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.warned = False

    def forward(self, x):
        if not self.warned and x.abs().max() > 3.0:
            warnings.warn("inputs are large; did you normalise them?", stacklevel=2)
            self.warned = True
        return torch.relu(self.linear(x))


torch.manual_seed(0)
layer = torch.compile(Guarded())
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for scale in (1.0, 10.0, 20.0):
        print(f"{layer(torch.randn(4, 5) * scale).sum():.2f}")
