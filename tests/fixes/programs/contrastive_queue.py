"""A memory bank with a pointer that wraps around."""

import torch
import torch.nn.functional as F
from torch import nn


class MoCo(nn.Module):
    def __init__(self, dim=4, size=12):
        super().__init__()
        self.encoder = nn.Linear(6, dim)
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))
        self.size = size

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        p = int(self.pointer)
        assert self.size % n == 0
        self.queue[:, p : p + n] = keys.T
        self.pointer[0] = (p + n) % self.size

    def forward(self, x, y):
        q = F.normalize(self.encoder(x), dim=-1)
        k = F.normalize(self.encoder(y), dim=-1).detach()
        logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ self.queue.clone().detach()], 1) / 0.07
        self.enqueue(k)
        return F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))


torch.manual_seed(0)
moco = torch.compile(MoCo())
for _ in range(4):
    moco(torch.randn(4, 6), torch.randn(4, 6)).backward()
