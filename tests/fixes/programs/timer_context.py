"""A timer as a context manager around the parts of a model."""

import time
from contextlib import contextmanager

import torch
from torch import nn

timings = {}


@contextmanager
def timer(name):
    start = time.time()
    yield
    timings[name] = time.time() - start


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 8)
        self.decoder = nn.Linear(8, 4)

    def forward(self, x):
        with timer("encoder"):
            h = torch.relu(self.encoder(x))
        with timer("decoder"):
            return self.decoder(h)


torch.manual_seed(0)
model = torch.compile(Model())
model(torch.randn(3, 4)).sum().backward()
print(sorted(timings))
