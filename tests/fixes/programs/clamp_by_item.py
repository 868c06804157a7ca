"""A clamp whose bound is a number of the data."""

import torch


@torch.compile
def clamp(x):
    bound = x.abs().mean().item()
    return x.clamp(-bound, bound) + 1


clamp(torch.arange(-4.0, 4.0))
