"""Early stopping that keeps the best weights."""

from copy import deepcopy

import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience=3, delta=0.0):
        self.patience = patience
        self.delta = delta
        self.counter = 0
        self.best_loss = float("inf")
        self.best_state = None

    def __call__(self, loss, model):
        if loss < self.best_loss - self.delta:
            self.best_loss = loss.item()
            self.best_state = deepcopy(model.state_dict())
            self.counter = 0
        else:
            self.counter += 1
        return self.counter >= self.patience


torch.manual_seed(0)
model = nn.Linear(4, 1)
stopper = EarlyStopping()


@torch.compile
def validate(x, y):
    loss = (model(x).squeeze(-1) - y).abs().mean()
    return loss, stopper(loss, model)


for _ in range(3):
    x = torch.randn(8, 4)
    print(validate(x, x.sum(-1))[1])
