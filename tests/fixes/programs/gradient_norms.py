"""Logs the norm of each layer's gradient, and clips where it is large."""

import logging

import torch
from torch import nn

log = logging.getLogger("train")
logging.basicConfig(level=logging.INFO, format="%(message)s")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile
def step(x):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    total = 0.0
    for name, p in model.named_parameters():
        norm = p.grad.norm().item()
        log.debug("%s %.4f", name, norm)
        total += norm**2
    total = total**0.5
    if total > 0.5:
        for p in model.parameters():
            p.grad.mul_(0.5 / total)
    opt.step()
    return loss.detach(), total


for _ in range(2):
    loss, total = step(torch.randn(6, 5) * 3)
    print(f"{loss:.3f} {total:.3f}")
