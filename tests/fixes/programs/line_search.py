"""Backtracking until the objective is no larger."""

import torch


@torch.compile
def search(x, direction):
    def objective(point):
        return (point ** 2).sum() + point.abs().sum()

    start = objective(x)
    step = 1.0
    while objective(x + step * direction) > start and step > 1e-3:
        step *= 0.5
    return x + step * direction, step


torch.manual_seed(0)
print(search(torch.randn(5), torch.randn(5)))
