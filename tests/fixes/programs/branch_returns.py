import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


f(torch.ones(4))
f(-torch.ones(4))
