import torch


@torch.compile
def f(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


f(torch.ones(4), torch.arange(4.0))
f(torch.ones(4), -torch.arange(4.0))
