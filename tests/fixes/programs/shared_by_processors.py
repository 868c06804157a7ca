"""The work of one processor of the machine, which is asked for in the middle."""

import os

import torch


@torch.compile
def share(x, weight):
    y = torch.relu(x) * weight
    part = y / os.cpu_count()
    return part + 1


print(share(torch.arange(6.0), 2.0))
