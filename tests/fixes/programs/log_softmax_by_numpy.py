"""A function that was ported from NumPy halfway."""

import numpy as np
import torch


@torch.compile
def log_softmax(x):
    shifted = x - x.max()
    total = torch.from_numpy(np.roll(np.exp(shifted.numpy()), 1)).sum()
    return shifted - total.log()


log_softmax(torch.arange(4.0))
