"""A breakpoint that was left behind a check."""

import pdb

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        if torch.isnan(h).any():
            pdb.set_trace()
        print("h", h.shape, h.mean())
        return self.b(h)


torch.manual_seed(0)
net = torch.compile(Net())
for _ in range(2):
    print(f"{net(torch.ones(3, 4)).sum():.3f}")
