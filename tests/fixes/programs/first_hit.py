"""The first place where a value is over a limit."""

import torch


@torch.compile
def first_over(values, limit):
    found = torch.tensor(-1)
    for i in range(values.shape[0]):
        if values[i] > limit:
            found = torch.tensor(i)
            break
    return found + 1


for limit in (0.1, 0.5, 2.0):
    print(first_over(torch.tensor([0.0, 0.3, 0.7, 1.0]), limit))
