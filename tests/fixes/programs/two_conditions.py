import torch


@torch.compile
def f(x, y):
    if x.sum() > 0 and y.sum() > 0:
        x = x + y
    return x * 2


f(torch.ones(4), torch.ones(4))
f(torch.ones(4), -torch.ones(4))
