"""Losses of the levels of a pyramid, each only where something matched."""

import torch
import torch.nn.functional as F


@torch.compile
def pyramid_loss(scores, targets):
    losses = []
    for score, target in zip(scores, targets, strict=False):
        mask = target >= 0
        if mask.sum() > 0:
            losses.append(F.binary_cross_entropy_with_logits(score, target.clamp(min=0), weight=mask.float()))
    return torch.stack(losses).sum()


torch.manual_seed(0)
scores = [torch.randn(8, requires_grad=True) for _ in range(3)]
targets = [torch.randint(0, 2, (8,)).float() for _ in range(2)] + [torch.full((8,), -1.0)]
pyramid_loss(scores, targets).backward()
