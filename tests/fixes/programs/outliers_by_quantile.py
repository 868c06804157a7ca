"""Clips at quantiles that NumPy computes."""

import numpy as np
import torch


@torch.compile
def robust(x):
    flat = x.detach().cpu().numpy()
    low, high = np.quantile(flat, 0.05), np.quantile(flat, 0.95)
    return x.clamp(float(low), float(high)) - float(np.median(flat))


torch.manual_seed(0)
for n in (31, 31):
    x = torch.randn(n, requires_grad=True)
    robust(x).pow(2).sum().backward()
    print(f"{x.grad.sum():.3f}")
