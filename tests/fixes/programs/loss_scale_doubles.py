"""A dynamic loss scale, as in mixed precision."""

import torch
from torch import nn


class Scaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(8.0))

    def forward(self, loss, grad):
        if torch.isfinite(grad).all():
            scale = self.scale * 2
        else:
            scale = self.scale / 2
        return loss * scale


scaler = torch.compile(Scaler())
scaler(torch.tensor(1.0), torch.ones(3))
scaler(torch.tensor(1.0), torch.tensor([1.0, float("inf")]))
