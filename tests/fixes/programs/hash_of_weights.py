"""A checksum of an activation is logged for reproducibility."""

import hashlib

import torch
from torch import nn

net = nn.Linear(3, 3)
digests = []


@torch.compile
def forward(x):
    h = torch.tanh(net(x))
    digests.append(hashlib.md5(h.detach().numpy().tobytes()).hexdigest()[:8])
    return h * 2


torch.manual_seed(0)
forward(torch.randn(2, 3)).sum().backward()
print(len(digests))
