"""A trainer that keeps one line of text a step for the log."""

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 4)
        self.lines = []
        self.step_number = 0

    @torch.compile
    def step(self, x):
        out = self.model(x)
        reconstruction = (out - x).pow(2).mean()
        sparsity = out.abs().mean()
        loss = reconstruction + 0.01 * sparsity
        self.step_number += 1
        self.lines.append(f"step {self.step_number}: rec {reconstruction:.4f} sparse {sparsity:.4f} total {loss:.4f}")
        return loss


trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(5, 4))
print(len(trainer.lines))
