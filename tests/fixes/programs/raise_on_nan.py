import torch


@torch.compile
def f(x):
    y = torch.log(x)
    if torch.isnan(y).any():
        raise ValueError("not a number")
    return y + 1


f(torch.rand(8) + 1)
