"""A learning rate that may be a number of Python's or of NumPy's."""

import numbers

import numpy as np
import torch


@torch.compile
def scaled(x, rate):
    if isinstance(rate, (np.floating, np.integer)):
        rate = rate.item()
    if not isinstance(rate, numbers.Number):
        raise TypeError("rate")
    peak = float(x.abs().max())
    if peak > 10:
        x = x / peak
    return x * rate


torch.manual_seed(0)
scaled(torch.randn(6), np.float32(0.5))
scaled(20 * torch.randn(6), np.float32(0.5))
