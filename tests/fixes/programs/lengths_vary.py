"""Sequences of several lengths, padded by the longest."""

import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(20, 8)
head = nn.Linear(8, 2)


@torch.compile
def classify(tokens, lengths):
    longest = int(lengths.max())
    tokens = tokens[:, :longest]
    mask = torch.arange(longest)[None] < lengths[:, None]
    x = embed(tokens) * mask[..., None]
    return head(x.sum(1) / lengths[:, None])


for n in (4, 6, 9):
    lengths = torch.tensor([n, n - 2, 2])
    classify(torch.randint(0, 20, (3, 12)), lengths).sum().backward()
