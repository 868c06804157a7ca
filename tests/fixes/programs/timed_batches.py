"""A loop that times every batch and collects how long each took."""

import time

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
durations = []


@torch.compile
def run_batches(batches):
    total = torch.zeros(())
    for batch in batches:
        start = time.perf_counter()
        out = net(batch)
        total = total + out.square().mean()
        durations.append(time.perf_counter() - start)
    return total


data = [torch.randn(4, 8) for _ in range(3)]
for _ in range(2):
    print(f"{run_batches(data):.4f}")
