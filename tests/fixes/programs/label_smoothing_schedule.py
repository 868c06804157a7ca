"""The weight of a loss grows with the step until a limit, by a branch on a buffer."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class AnnealedLoss(nn.Module):
    def __init__(self, warmup=3):
        super().__init__()
        self.register_buffer("step", torch.tensor(0))
        self.warmup = warmup

    def forward(self, logits, y, kl):
        self.step += 1
        if self.step < self.warmup:
            weight = self.step / self.warmup
        else:
            weight = torch.tensor(1.0)
        loss = F.cross_entropy(logits, y) + weight * kl
        if math.isnan(loss):
            raise RuntimeError("the loss is not a number")
        return loss


torch.manual_seed(0)
criterion = torch.compile(AnnealedLoss())
for _ in range(4):
    logits = torch.randn(6, 3, requires_grad=True)
    criterion(logits, torch.randint(0, 3, (6,)), torch.tensor(0.3)).backward()
