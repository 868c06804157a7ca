"""Mixed precision by hand: skip steps whose loss or gradients are not finite."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
seconds = []
skipped = 0


@torch.compile
def step(x, y, scale):
    start = time.time()
    opt.zero_grad()
    loss = F.mse_loss(model(x).squeeze(-1), y)
    (loss * scale).backward()
    for p in model.parameters():
        p.grad.div_(scale)
    if torch.isfinite(loss):
        opt.step()
    seconds.append(time.time() - start)
    return loss


@torch.compile
def grads_ok(parameters):
    for p in parameters:
        if p.grad is not None and not torch.isfinite(p.grad).all():
            print("a gradient is not finite")
            return False
    return True


torch.manual_seed(0)
for i in range(4):
    x, y = torch.randn(8, 10), torch.randn(8)
    loss = step(x, y, 128.0)
    ok = grads_ok(list(model.parameters()))
    print(i, f"{loss.item():.4f}", ok)
