"""A learning rate that falls where the loss grew."""

import torch


@torch.compile
def next_rate(rate, loss, before):
    if loss > before:
        rate = rate * 0.5
    return rate * 0.99


rate, before = torch.tensor(0.1), torch.tensor(1.0)
for value in (0.9, 1.2, 0.8):
    rate = next_rate(rate, torch.tensor(value), before)
    before = torch.tensor(value)
print(round(rate.item(), 6))
