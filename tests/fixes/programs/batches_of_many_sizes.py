"""The last batch of an epoch is smaller, and so is that of the next."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


@torch.compile
def loss_of(x, y):
    return nn.functional.cross_entropy(model(x), y)


torch.manual_seed(0)
for size in (16, 16, 5, 16, 9):
    loss = loss_of(torch.randn(size, 6), torch.randint(0, 2, (size,)))
    loss.backward()
