"""Newton's root, until it is near enough."""

import torch


@torch.compile
def newton(x, tol=1e-4):
    y = x.clone()
    error = (y * y - x).abs().max()
    while error > tol:
        y = 0.5 * (y + x / y)
        error = (y * y - x).abs().max()
    return y


for s in (1.0, 2.0, 9.0):
    print(newton(torch.full((5,), s) + torch.arange(5.0)))
