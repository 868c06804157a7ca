"""The entropy of a histogram, empty bins left out."""

import torch


@torch.compile
def entropy(counts):
    p = counts / counts.sum()
    p = p[p > 0]
    return -(p * p.log()).sum()


entropy(torch.tensor([1.0, 0.0, 3.0, 4.0]))
