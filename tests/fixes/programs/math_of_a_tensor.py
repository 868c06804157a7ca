import math

import torch


@torch.compile
def f(x):
    return x * math.exp(x.mean())


f(torch.randn(8))
