"""Prints the loss and the learning rate every few steps."""

import torch
from torch import nn


class Loop:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Linear(4, 1)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.global_step = 0
        self.running = 0.0

    @torch.compile
    def train_step(self, x, y):
        loss = ((self.model(x) - y) ** 2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.running += loss.item()
        self.global_step += 1
        if self.global_step % 2 == 0:
            print(f"[{self.global_step}] loss={self.running / 2:.4f}")
            self.running = 0.0
        return loss


loop = Loop()
for _ in range(4):
    loop.train_step(torch.ones(3, 4), torch.ones(3, 1))
