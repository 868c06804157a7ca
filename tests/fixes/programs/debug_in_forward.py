"""A module with its author's debugging left in `forward`."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        h = torch.relu(self.first(x))
        print("hidden", h.shape)
        return self.second(h)


torch.manual_seed(0)
model = torch.compile(Net())
model(torch.randn(2, 8)).sum().backward()
