"""A training step that leaves early when the loss is no number."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []


@torch.compile
def train_step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    if not torch.isfinite(loss):
        print("skipping a batch: loss is not finite")
        return None
    loss.backward()
    grad_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if grad_norm > 5:
        print(f"large gradient: {grad_norm:.2f}")
    optimizer.step()
    history.append(loss.item())
    return loss


for _ in range(3):
    train_step(torch.randn(16, 8), torch.randint(0, 3, (16,)))
print(len(history))
