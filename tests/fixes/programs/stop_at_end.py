"""Generation that stops when all sequences have ended."""

import torch
from torch import nn

END = 3
embed, head = nn.Embedding(10, 8), nn.Linear(8, 10)


@torch.compile
def generate(tokens, most):
    for _ in range(most):
        logits = head(embed(tokens).mean(1))
        following = logits.argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, following], 1)
        if (following == END).all():
            break
    return tokens


torch.manual_seed(0)
with torch.no_grad():
    print(generate(torch.randint(0, 10, (2, 3)), 4))
