"""The largest activation over layers, as Python's max finds it."""

import torch


@torch.compile
def largest(x):
    worst = torch.tensor(0.0)
    for power in (1, 2, 3):
        y = (x**power).abs().max()
        if y > worst:
            worst = y
    return worst + 1


largest(torch.linspace(-2, 2, 5))
