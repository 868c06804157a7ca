"""A validation step that keeps the best weights in a buffer."""

import io

import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 1))
best = {"loss": float("inf"), "bytes": 0}


@torch.compile
def validate(x, y):
    loss = nn.functional.mse_loss(model(x).squeeze(-1), y)
    if loss.item() < best["loss"]:
        best["loss"] = loss.item()
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        best["bytes"] = len(buffer.getvalue())
    return loss


for scale in (3.0, 1.0, 2.0, 0.5):
    validate(torch.randn(16, 6), scale * torch.randn(16))
print(best["bytes"] > 0)
