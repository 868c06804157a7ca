"""A mask from a comparison, element by element."""

import torch


@torch.compile
def kept(x):
    mask = torch.tensor([bool(value > 0) for value in x])
    return torch.where(mask, x, torch.zeros_like(x)) * 2


kept(torch.tensor([1.0, -2.0, 3.0]))
