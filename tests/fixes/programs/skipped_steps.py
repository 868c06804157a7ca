"""A training step that counts in a dictionary how often the gradients were not finite."""

import torch
from torch import nn

running = {"loss": 0.0, "skipped": 0}


@torch.compile
def step(model, opt, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if torch.isinf(norm) or torch.isnan(norm):
        running["skipped"] += 1
    opt.step()
    running["loss"] += loss.item()


torch.manual_seed(0)
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    step(model, opt, torch.randn(8, 4), torch.randn(8, 1))
step(model, opt, torch.full((8, 4), float("inf")), torch.randn(8, 1))
print(running["skipped"], running["loss"] != 0)
