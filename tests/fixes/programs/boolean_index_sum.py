import torch


@torch.compile
def f(x):
    positive = x[x > 0].sum()
    return x / positive


f(torch.randn(32))
