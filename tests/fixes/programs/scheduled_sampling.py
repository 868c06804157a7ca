"""Teacher forcing by chance: the truth or the model's own word goes on."""

import random

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 12)

    def forward(self, target, ratio=0.5):
        h = torch.zeros(target.shape[0], 8)
        token = target[:, 0]
        outputs = []
        for t in range(1, target.shape[1]):
            h = self.cell(self.embed(token), h)
            logits = self.out(h)
            outputs.append(logits)
            if random.random() < ratio:
                token = target[:, t]
            else:
                token = logits.argmax(-1)
        return torch.stack(outputs, 1)


random.seed(0)
torch.manual_seed(0)
decoder = torch.compile(Decoder())
decoder(torch.randint(0, 12, (3, 4))).sum().backward()
