"""Each step writes a row of a CSV file."""

import csv
import io

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
file = io.StringIO()
writer = csv.writer(file)


@torch.compile
def step(index, x, y):
    pred = model(x).squeeze(-1)
    loss = (pred - y).abs().mean()
    writer.writerow([index, loss.item()])
    if loss > 100:
        raise RuntimeError(f"diverged at {index}: {loss.item()}")
    return loss


for index in range(3):
    x = torch.randn(8, 4)
    step(index, x, x.sum(-1)).backward()
print(len(file.getvalue().splitlines()))
