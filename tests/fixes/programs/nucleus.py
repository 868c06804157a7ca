"""The most likely tokens up to a share."""

import torch


@torch.compile
def nucleus(logits, p):
    probabilities, order = logits.softmax(-1).sort(descending=True)
    count = int((probabilities.cumsum(-1) < p).sum()) + 1
    kept = probabilities[:count]
    kept = kept / kept.sum()
    return order[:count], kept


torch.manual_seed(0)
print(nucleus(torch.randn(12), 0.8))
