"""Mixed precision by hand: the optimiser steps only where the loss is finite."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(10, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


@torch.compile
def train_step(x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    if torch.isfinite(loss):
        optimizer.step()
    return loss.detach()


x, y = torch.randn(16, 10), torch.randint(0, 4, (16,))
for i in range(3):
    print(f"{train_step(x * (float('inf') if i == 1 else 1.0), y):.4f}")
