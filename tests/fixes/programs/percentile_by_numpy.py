"""A threshold by NumPy's percentile."""

import numpy as np
import torch


@torch.compile
def clipped(x):
    limit = np.percentile(x.numpy(), 50)
    return x.clamp(max=float(limit)) * 2


clipped(torch.tensor([1.0, 5.0, 3.0]))
