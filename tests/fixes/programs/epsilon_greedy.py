"""Chooses an action: sometimes at random, else the best."""

import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
q = nn.Linear(4, 3)


@torch.compile
def act(state, eps):
    values = q(state)
    if random.random() < eps:
        action = random.randrange(3)
    else:
        action = values.argmax().item()
    return action, values.max()


for _ in range(4):
    action, value = act(torch.randn(4), 0.5)
    print(action, f"{value:.3f}")
