"""A scale that NumPy computes of the data."""

import numpy as np
import torch


@torch.compile
def scaled(x):
    scale = np.sqrt(np.roll(x.numpy(), 1))
    return torch.as_tensor(scale) + x


scaled(torch.arange(1.0, 5.0))
