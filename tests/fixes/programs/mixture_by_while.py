"""Halved until it is small: how often is known only at run time."""

import torch


@torch.compile
def shrunk(x):
    while x.abs().max() > 1:
        x = x / 2
    return x + 1


shrunk(torch.tensor([5.0, -3.0]))
