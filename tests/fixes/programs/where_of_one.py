import torch


@torch.compile
def f(x):
    x = x.clone()
    rows = torch.where(x.sum(-1) < 0)
    x[rows] = 0.0
    return x * 2


f(torch.randn(8, 4))
