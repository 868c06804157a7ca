"""The best loss so far, and what is done when it does not improve."""

import torch


@torch.compile
def updated(loss, best, rate):
    if loss < best:
        best = loss
    else:
        rate = rate * 0.5
    return best, rate


updated(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.1))
updated(torch.tensor(3.0), torch.tensor(2.0), torch.tensor(0.1))
