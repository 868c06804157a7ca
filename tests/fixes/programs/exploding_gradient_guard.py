"""A gradient that is dropped where it explodes."""

import torch


@torch.compile
def guarded(gradient):
    if gradient.norm() > 10:
        return torch.zeros_like(gradient)
    return gradient * 0.1


guarded(torch.ones(4))
guarded(torch.full((4,), 100.0))
