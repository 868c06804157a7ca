"""A histogram that NumPy makes."""

import numpy as np
import torch


@torch.compile
def features(x):
    counts, _ = np.histogram(x.numpy(), bins=4, range=(0.0, 1.0))
    return torch.from_numpy(counts).float() / x.numel()


features(torch.tensor([0.1, 0.3, 0.35, 0.9]))
