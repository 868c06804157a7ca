"""A training step that skips a batch whose loss is not a number."""

import logging

import torch
from torch import nn

log = logging.getLogger(__name__)
torch.manual_seed(0)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
skipped = []


@torch.compile
def train_step(x, y):
    loss = (model(x).squeeze(-1) - y).pow(2).mean()
    if torch.isnan(loss) or torch.isinf(loss):
        log.warning("bad batch")
        skipped.append(1)
        return None
    return loss


for scale in (1.0, 1.0, float("nan")):
    x = torch.randn(4, 5) * scale
    loss = train_step(x, x[:, 0])
    if loss is not None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
