"""Norms of gradients are kept for a table, and large ones reported."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
norms = {}


@torch.compile
def step(x, y):
    optimizer.zero_grad()
    loss = (net(x) - y).pow(2).mean()
    loss.backward()
    for name, p in net.named_parameters():
        norm = p.grad.norm()
        if norm > 0.5:
            print(f"large gradient in {name}: {norm:.3f}")
        norms[name] = norm.item()
    optimizer.step()
    return loss


for _ in range(2):
    x = torch.randn(8, 4)
    step(x, x.sum(-1, keepdim=True))
print(len(norms))
