import torch


@torch.compile
def f(x, limit):
    norm = x.norm()
    if norm < limit:
        return x
    factor = limit / norm
    return x * factor


f(torch.ones(4), 1.0)
f(torch.ones(4) / 100, 1.0)
