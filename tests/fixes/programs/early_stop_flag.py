"""Early stopping inside the step: patience is counted, and a flag is returned."""

import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience=2):
        self.patience, self.counter, self.best = patience, 0, None

    def __call__(self, loss):
        if self.best is None or loss < self.best - 1e-4:
            self.best = loss
            self.counter = 0
            return False
        self.counter += 1
        return self.counter >= self.patience


stopper = EarlyStopping()
torch.manual_seed(0)
model = nn.Linear(3, 1)


@torch.compile
def validate(x, y):
    with torch.no_grad():
        loss = nn.functional.l1_loss(model(x), y)
    return loss, stopper(loss.item())


for i in range(4):
    loss, stop = validate(torch.ones(2, 3) * i, torch.zeros(2, 1))
    print(f"{loss:.3f}", stop)
