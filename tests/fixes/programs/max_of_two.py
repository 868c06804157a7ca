import torch


@torch.compile
def f(x):
    return x / max(x.abs().sum(), torch.tensor(1.0))


f(torch.randn(8))
f(torch.zeros(8))
