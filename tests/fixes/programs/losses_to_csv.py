"""Each step writes its losses to a file."""

import csv
import os
import tempfile

import torch
from torch import nn

path = os.path.join(tempfile.gettempdir(), "dynascope_losses.csv")
net = nn.Linear(5, 3)


@torch.compile
def step(x, y):
    logits = net(x)
    loss = nn.functional.cross_entropy(logits, y)
    accuracy = (logits.argmax(-1) == y).float().mean()
    with open(path, "a", newline="") as file:
        csv.writer(file).writerow([f"{loss.item():.4f}", f"{accuracy.item():.3f}"])
    return loss


for _ in range(3):
    step(torch.randn(8, 5), torch.randint(0, 3, (8,)))
os.remove(path)
