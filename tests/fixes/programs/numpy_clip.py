import numpy as np
import torch


@torch.compile
def f(x):
    y = torch.as_tensor(np.clip(np.argsort(x.detach().numpy()), 1, 3))
    return y * 2


f(torch.randn(8))
