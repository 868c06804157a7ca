"""Diffusion's reverse process with a progress bar and a debug dump."""

import json
import sys

import torch
from torch import nn

net = nn.Linear(6, 6)
betas = torch.linspace(1e-3, 0.2, 5)
alphas = torch.cumprod(1 - betas, 0)


@torch.compile
@torch.no_grad()
def sample(x):
    stats = {}
    for t in reversed(range(5)):
        eps = net(x)
        x = (x - betas[t] / (1 - alphas[t]).sqrt() * eps) / (1 - betas[t]).sqrt()
        stats[f"step_{t}"] = {"mean": x.mean().item(), "std": x.std().item()}
        sys.stderr.write(f"\rstep {t}")
    sys.stderr.write("\n")
    sys.stderr.write(json.dumps(stats) + "\n")
    return x


torch.manual_seed(0)
sample(torch.randn(2, 6))
