"""A response curve that NumPy interpolates."""

import numpy as np
import torch

GRID = np.linspace(0.0, 1.0, 5)
CURVE = GRID**2


@torch.compile
def response(x, gain):
    level = torch.sigmoid(x) * gain
    levels = level.detach().numpy()
    found = np.interp(levels, GRID, CURVE)
    curve = torch.from_numpy(found)
    return level * curve.to(level.dtype)


torch.manual_seed(0)
for _ in range(2):
    print(response(torch.randn(2, 7, requires_grad=True), torch.tensor(0.5)).sum())
