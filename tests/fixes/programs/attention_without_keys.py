"""Attention that masks rows without anything to look at."""
import torch
import torch.nn.functional as F


@torch.compile
def attend(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    scores = scores.masked_fill(~mask, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    if torch.isnan(weights).any():
        weights[torch.isnan(weights)] = 0.0
    return weights @ v


torch.manual_seed(0)
mask = torch.ones(4, 4, dtype=torch.bool).tril()
mask[0] = False
for m in (mask, torch.ones(4, 4, dtype=torch.bool)):
    print(attend(torch.randn(2, 4, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 8), m).sum().item())
