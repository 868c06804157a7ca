"""A line on the terminal in each step."""

import sys

import torch
from torch import nn

model = nn.Linear(4, 1)


@torch.compile
def loss_of(x):
    out = model(x).tanh()
    loss = out.square().mean()
    sys.stdout.write(f"loss {loss.item():.3f}\n")
    sys.stdout.flush()
    return loss


torch.manual_seed(0)
loss_of(torch.randn(3, 4)).backward()
