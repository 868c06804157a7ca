import torch


@torch.compile
def f(x):
    mean = x.mean()
    if mean > 1:
        y = x - 1
    elif mean < -1:
        y = x + 1
    else:
        y = x
    return y * 3


for value in (2.0, -2.0, 0.0):
    f(torch.full((4,), value))
