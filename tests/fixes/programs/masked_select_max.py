import torch


@torch.compile
def f(x, keep):
    return torch.masked_select(x, keep).max() * 2


f(torch.randn(16), torch.arange(16) > 3)
