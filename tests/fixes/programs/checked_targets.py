"""Targets are checked before the loss."""

import torch
from torch.nn import functional as F


@torch.compile
def loss(logits, target):
    if target.max() >= logits.shape[-1]:
        raise ValueError(f"target {target.max().item()} is out of range for {logits.shape[-1]} classes")
    if target.min() < 0:
        raise ValueError("negative target")
    return F.cross_entropy(logits, target)


torch.manual_seed(0)
x = torch.randn(4, 5, requires_grad=True)
loss(x, torch.tensor([0, 1, 4, 2])).backward()
