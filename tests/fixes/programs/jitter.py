"""Augmentation with numbers that NumPy draws."""

import numpy as np
import torch


@torch.compile
def augment(images):
    scale = np.random.uniform(0.8, 1.2)
    shift = np.random.uniform(-0.1, 0.1, size=3)
    images = images * scale
    return images + torch.from_numpy(shift).float()[:, None, None]


np.random.seed(0)
for _ in range(3):
    print(augment(torch.ones(2, 3, 4, 4)).mean())
