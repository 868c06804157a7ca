"""Prototypes of the classes that a batch has."""

import torch
from torch import nn

encoder = nn.Linear(8, 4)


@torch.compile
def prototypes(x, labels):
    features = encoder(x)
    means = []
    for label in sorted(set(labels.tolist())):
        means.append(features[labels == label].mean(0))
    return torch.stack(means)


print(prototypes(torch.randn(12, 8), torch.tensor([0, 1, 2] * 4)).shape)
