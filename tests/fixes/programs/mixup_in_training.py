"""Noise is added in a branch on the value of the input."""

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))

    def forward(self, x):
        if x.std() < 0.8:
            x = x + 0.1 * torch.randn_like(x)
        return self.net(x)


torch.manual_seed(0)
model = torch.compile(Denoiser())
model(torch.randn(4, 6)).sum().backward()
model(0.1 * torch.randn(4, 6)).sum().backward()
