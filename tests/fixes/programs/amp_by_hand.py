"""Loss scaling written out: a step with overflow is skipped and halves the scale."""

import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scale = 1024.0


@torch.compile
def train_step(x, y):
    global scale
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    (loss * scale).backward()
    finite = True
    for parameter in model.parameters():
        parameter.grad /= scale
        if not torch.isfinite(parameter.grad).all():
            finite = False
    if finite:
        optimizer.step()
    else:
        scale /= 2
    return loss


for factor in (1.0, 1.0, 1e38):
    train_step(torch.randn(6, 4) * factor, torch.randn(6, 2))
print(scale)
