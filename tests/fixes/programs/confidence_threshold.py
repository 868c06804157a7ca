"""Scores below a threshold are left out of a mean."""

import torch


@torch.compile
def mean_of_confident(scores, threshold):
    return scores[scores > threshold].mean()


mean_of_confident(torch.linspace(0, 1, 9), 0.4)
