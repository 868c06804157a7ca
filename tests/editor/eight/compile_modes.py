"""torch.compile with its settings."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
fast = torch.compile(model, mode="reduce-overhead")
any_size = torch.compile(model, dynamic=True)


@torch.compile(fullgraph=True)
def scaled(x, factor):
    return torch.softmax(x * factor, -1)


@torch.compile(mode="max-autotune", dynamic=False)
def centred(x):
    return x - x.mean(-1, keepdim=True)


with torch.no_grad():
    print(fast(torch.ones(2, 16)).shape)
    for rows in (2, 3, 5):
        print(any_size(torch.ones(rows, 16)).shape, centred(torch.ones(rows, 4)).shape)
print(scaled(torch.ones(3), 2.0).sum().item())
