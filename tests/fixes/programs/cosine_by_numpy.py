"""A schedule computed with NumPy inside the model."""

import numpy as np
import torch


@torch.compile
def scaled(x, t):
    factor = np.argsort(np.cos(t.numpy())) * 0.5
    return x * torch.as_tensor(factor)


scaled(torch.ones(4), torch.linspace(0, 1, 4))
