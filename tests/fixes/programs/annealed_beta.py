"""A VAE loss whose beta grows while the KL is small."""

import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = 0.1

    def forward(self, mean, log_variance, reconstruction):
        kl = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(-1).mean()
        if kl < 1.0:
            self.beta = min(self.beta * 1.5, 1.0)
        return reconstruction + self.beta * kl


criterion = torch.compile(Loss())
for size in (0.1, 0.2, 3.0):
    print(criterion(size * torch.ones(4, 3), torch.zeros(4, 3), torch.tensor(0.5)).item())
