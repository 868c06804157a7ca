"""An average of the weights and a schedule by hand."""

import math

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.updates = torch.tensor(0)

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates.item()) / (10 + self.updates.item()))
        for name, p in model.named_parameters():
            if not torch.isfinite(p).all():
                print(f"{name} is not finite")
                continue
            self.shadow[name].mul_(decay).add_(p, alpha=1 - decay)


def cosine(step, warmup, total, base):
    if step < warmup:
        return base * step / warmup
    return base * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


@torch.compile
def train_step(model, ema, optimizer, x, step):
    lr = cosine(step, 2, 10, 0.1)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    total = 0.0
    for p in model.parameters():
        total += p.grad.norm().item() ** 2
    if math.sqrt(total) > 1.0:
        for p in model.parameters():
            p.grad.mul_(1.0 / math.sqrt(total))
    optimizer.step()
    ema.update(model)
    return loss


torch.manual_seed(0)
model = nn.Linear(4, 4)
ema = EMA(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = train_step(model, ema, optimizer, torch.randn(8, 4), step)
print(f"{loss.item():.4f}")
