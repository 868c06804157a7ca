"""A meter keeps the means of an evaluation, and slow batches are told."""

import time
from collections import defaultdict

import torch
from torch import nn


class Meter:
    def __init__(self):
        self.values = defaultdict(list)

    def update(self, **values):
        for name, value in values.items():
            self.values[name].append(float(value))

    def mean(self, name):
        return sum(self.values[name]) / len(self.values[name])


meter = Meter()
net = nn.Linear(6, 3)


@torch.compile
def evaluate(x, y):
    started = time.time()
    logits = net(x)
    loss = nn.functional.cross_entropy(logits, y)
    accuracy = (logits.argmax(1) == y).float().mean()
    meter.update(loss=loss, accuracy=accuracy)
    if time.time() - started > 100:
        print("slow batch")
    return logits


torch.manual_seed(0)
with torch.no_grad():
    for _ in range(3):
        evaluate(torch.randn(8, 6), torch.randint(0, 3, (8,)))
print("accuracy", round(meter.mean("accuracy"), 3))
