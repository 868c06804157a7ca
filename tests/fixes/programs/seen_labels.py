"""Per-class means over the labels that are in the batch, by a set."""

import torch


@torch.compile
def class_means(features, labels):
    present = set(labels.tolist())
    means = []
    for c in sorted(present):
        means.append(features[labels == c].mean(0))
    return torch.stack(means)


torch.manual_seed(0)
labels = torch.tensor([0, 1, 2, 1, 0, 2, 2, 1])
for _ in range(2):
    print(class_means(torch.randn(8, 4), labels).shape)
