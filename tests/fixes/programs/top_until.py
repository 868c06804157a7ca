"""The likeliest tokens, until they have enough of the probability."""

import torch


@torch.compile
def nucleus(logits, p=0.6):
    probs, index = logits.softmax(-1).sort(descending=True)
    total, keep = 0.0, 0
    for value in probs:
        total += value.item()
        keep += 1
        if total > p:
            break
    mask = torch.arange(len(probs)) < keep
    return torch.where(mask, probs, torch.zeros(())), index


torch.manual_seed(0)
for _ in range(3):
    print(nucleus(torch.randn(6))[0].sum())
