"""A line of text is made, then logged."""

import logging

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("train")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(16, 4)

    def forward(self, x):
        h = self.a(x).relu()
        message = f"hidden mean {h.mean().item():.3f} max {h.max().item():.3f}"
        log.info(message)
        return self.b(h)


torch.manual_seed(0)
m = torch.compile(Net())
for _ in range(2):
    print(m(torch.randn(3, 8)).shape)
