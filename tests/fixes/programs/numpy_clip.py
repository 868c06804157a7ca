import numpy as np
import torch


@torch.compile
def f(x):
    y = torch.as_tensor(np.clip(np.roll(x.detach().numpy(), 1), -1.0, 1.0))
    return y * 2


f(torch.randn(8))
