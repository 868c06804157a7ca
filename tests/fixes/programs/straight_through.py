"""A vector quantiser that revives codes which nobody uses."""

import torch
import torch.nn.functional as F
from torch import nn


class Quantiser(nn.Module):
    def __init__(self, codes=8, dim=4):
        super().__init__()
        self.codebook = nn.Embedding(codes, dim)
        self.register_buffer("usage", torch.zeros(codes))

    def forward(self, z):
        distance = torch.cdist(z, self.codebook.weight)
        code = distance.argmin(-1)
        q = self.codebook(code)
        counts = torch.bincount(code, minlength=8).float()
        self.usage.mul_(0.9).add_(counts, alpha=0.1)
        perplexity = torch.exp(-(counts / counts.sum() * (counts / counts.sum() + 1e-9).log()).sum())
        if perplexity < 2:
            print("codebook collapses")
        loss = F.mse_loss(q.detach(), z) + F.mse_loss(q, z.detach())
        return z + (q - z).detach(), loss, perplexity.item()


torch.manual_seed(0)
quantiser = torch.compile(Quantiser())
for _ in range(2):
    z = torch.randn(6, 4, requires_grad=True)
    q, loss, _ = quantiser(z)
    (q.sum() + loss).backward()
