"""Outliers take the mean's place."""

import torch


@torch.compile
def cleaned(x):
    mean, deviation = x.mean(), x.std()
    far = (x - mean).abs() > 2 * deviation
    if far.any():
        x = torch.where(far, mean, x)
    return x * 2


cleaned(torch.tensor([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 30.0]))
cleaned(torch.ones(8) + torch.linspace(0, 0.1, 8))
