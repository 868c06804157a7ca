"""A codebook that its first batch fills, as in vector quantisation."""

import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.tensor(False))
        self.register_buffer("codes", torch.zeros(4, 8))

    def forward(self, x):
        if not self.ready:
            self.codes.copy_(x[:4].detach())
            self.ready.fill_(True)
        index = torch.cdist(x, self.codes).argmin(-1)
        return x + (self.codes[index] - x).detach()


torch.manual_seed(0)
book = Codebook()
quantise = torch.compile(book)
for _ in range(3):
    quantise(torch.randn(6, 8, requires_grad=True)).sum().backward()
