import warnings

import torch


@torch.compile
def f(x):
    norm = x.norm()
    if norm > 1:
        warnings.warn("a large input", stacklevel=2)
    return x / norm


f(torch.randn(8))
f(torch.randn(8) / 100)
