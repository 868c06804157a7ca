"""A step of a learning rate finder that smooths the loss and stops where it explodes."""

import logging

import torch
from torch import nn

logger = logging.getLogger("finder")


class Finder:
    def __init__(self, model, lr=1e-4):
        self.model, self.lr = model, lr
        self.smoothed, self.best, self.stopped = 0.0, float("inf"), False

    @torch.compile
    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        grads = torch.autograd.grad(loss, list(self.model.parameters()))
        with torch.no_grad():
            for p, g in zip(self.model.parameters(), grads, strict=True):
                p.sub_(self.lr * g)
        self.smoothed = 0.9 * self.smoothed + 0.1 * loss.item()
        if self.smoothed < self.best:
            self.best = self.smoothed
        if self.smoothed > 4 * self.best:
            logger.warning("diverged at lr %g", self.lr)
            self.stopped = True
        return loss


torch.manual_seed(0)
finder = Finder(nn.Linear(3, 1))
for _ in range(3):
    finder.step(torch.randn(5, 3), torch.randn(5, 1))
print(f"{finder.best:.4f}", finder.stopped)
