"""A function that says what it found as a text beside its result."""

import torch


@torch.compile
def summarise(scores, threshold=0.5):
    kept = scores > threshold
    rate = kept.float().mean()
    mean = (scores * kept).sum() / kept.sum().clamp(min=1)
    return mean, f"kept {rate.item():.0%}, mean {mean.item():.3f}"


torch.manual_seed(0)
for _ in range(2):
    value, text = summarise(torch.rand(50))
    print(f"{value:.3f}", text)
