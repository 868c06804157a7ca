"""A mixture of experts: every expert takes its own tokens."""

import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self, dim=8, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])
        self.usage = [0] * experts

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mask = chosen == i
            if mask.sum() == 0:
                continue
            self.usage[i] += mask.sum().item()
            out[mask] = weights[mask].unsqueeze(-1) * expert(x[mask])
        return out


torch.manual_seed(0)
model = MoE()
layer = torch.compile(model)
layer(torch.randn(10, 8)).sum().backward()
print(model.usage)
