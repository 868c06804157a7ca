"""Refined a few times, and left when it does not change any more."""

import torch


@torch.compile
def root(x):
    y = x
    for _ in range(4):
        better = (y + x / y) / 2
        if (better - y).abs().max() < 1e-3:
            break
        y = better
    return y * 2


root(torch.tensor([4.0, 9.0]))
