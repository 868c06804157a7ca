"""Hypotheses are sorted by their score, with Python's sorted."""

import torch
import torch.nn.functional as F


@torch.compile
def rerank(hypotheses, scores):
    normalised = F.log_softmax(scores, dim=0)
    ranked = sorted(zip(hypotheses, normalised, strict=False), key=lambda pair: pair[1], reverse=True)
    return torch.stack([h for h, _ in ranked]), ranked[0][1]


torch.manual_seed(0)
hypotheses = [torch.randn(5) for _ in range(4)]
rerank(hypotheses, torch.randn(4))
