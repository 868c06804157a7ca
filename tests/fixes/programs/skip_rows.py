"""Rows of little weight are skipped."""

import torch


@torch.compile
def total(rows, weights):
    result = torch.zeros(rows.shape[1])
    for row, weight in zip(rows, weights, strict=True):
        if weight < 0.5:
            continue
        result = result + row * weight
    return result


torch.manual_seed(0)
for _ in range(3):
    print(total(torch.randn(4, 3), torch.rand(4)))
