"""A floor written with a conditional expression."""

import torch


@torch.compile
def standardised(x):
    variance = x.var()
    variance = variance if variance > 1e-3 else torch.tensor(1e-3)
    return (x - x.mean()) / variance.sqrt()


standardised(torch.arange(4.0))
standardised(torch.ones(4))
