import sys

import torch


@torch.compile
def f(x):
    y = torch.sin(x)
    sys.stdout.write(f"{y.shape}\n")
    return y + 1


f(torch.randn(8))
