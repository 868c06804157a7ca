"""Python's own bisection finds the bin of each value."""

import bisect

import torch

EDGES = [0.1, 0.3, 0.7]


def bins_of(values):
    return torch.tensor([bisect.bisect(EDGES, value) for value in values.tolist()])


@torch.compile
def histogram(x):
    y = x.abs() / (1 + x.abs())
    places = bins_of(y)
    return torch.zeros(4).index_add(0, places, y)


torch.manual_seed(0)
print(histogram(torch.randn(11)))
