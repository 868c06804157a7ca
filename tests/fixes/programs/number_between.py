"""A gain that is changed where the mean is between two limits: numbers that are taken out only to decide."""

import torch


@torch.compile
def damped(x):
    n = x.mean().item()
    if n > 1 and n < 9:
        y = x * 2
    else:
        y = x - 1
    return y


@torch.compile
def clipped(x, limit):
    norm = x.norm().item()
    if 0 < norm < limit:
        x = x * (limit / norm)
    return x


for value in (0.5, 4.0, 12.0):
    print(damped(torch.full((4,), value)).sum(), clipped(torch.full((4,), value), 10.0).sum())
