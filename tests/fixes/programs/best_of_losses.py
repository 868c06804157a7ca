"""The largest of a few losses, by Python's max."""

import torch


@torch.compile
def worst(a, b, c):
    return max(a.mean(), b.mean(), c.mean()) * 2


worst(torch.ones(3), torch.zeros(3), torch.full((3,), 2.0))
