"""A learned temperature goes through Python's math and min."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Contrastive(nn.Module):
    """CLIP-like head, logs its temperature."""

    def __init__(self, dim=16):
        super().__init__()
        self.image = nn.Linear(dim, dim)
        self.text = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.tensor(2.6592))

    def forward(self, image, text):
        image = F.normalize(self.image(image), dim=-1)
        text = F.normalize(self.text(text), dim=-1)
        scale = min(math.exp(self.logit_scale), 100.0)
        logits = scale * image @ text.t()
        labels = torch.arange(len(logits))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


torch.manual_seed(0)
model = Contrastive()
step = torch.compile(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    loss = step(torch.randn(8, 16), torch.randn(8, 16))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{epoch}: {loss.item():.4f}")
