"""A filter from another library in the middle (a stand-in without SciPy)."""

import numpy as np
import torch


def gaussian_filter1d(values, sigma):
    radius = int(3 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    return np.stack([np.convolve(row, kernel, mode="same") for row in values])


@torch.compile
def smooth_loss(x, y):
    smoothed = torch.from_numpy(gaussian_filter1d(y.numpy(), 1.0)).to(x.dtype)
    return (x - smoothed).abs().mean()


torch.manual_seed(0)
for _ in range(2):
    x = torch.randn(2, 16, requires_grad=True)
    smooth_loss(x, torch.randn(2, 16)).backward()
    print(f"{x.grad.sum():.3f}")
