import torch


@torch.compile
def f(x):
    if not torch.isfinite(x).all():
        x = torch.nan_to_num(x)
    return x * 2


f(torch.ones(4))
f(torch.tensor([1.0, float("nan")]))
