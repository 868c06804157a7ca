"""Decoding: a token at a time, until the end of the text."""

import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(10, 8)
head = nn.Linear(8, 10)
EOS = 3


@torch.compile
@torch.no_grad()
def generate(token, steps=6, temperature=0.8):
    out = [token]
    for _ in range(steps):
        logits = head(embed(out[-1])) / temperature
        nxt = logits.argmax(-1)
        out.append(nxt)
        if nxt.item() == EOS:
            break
    return torch.stack(out)


print(generate(torch.tensor(1)).tolist())
