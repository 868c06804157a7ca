"""Token by token until all sequences are finished."""

import torch
from torch import nn

EOS, PAD = 2, 0


class Decoder(nn.Module):
    def __init__(self, vocab=20, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, hidden, max_len=8):
        token = torch.ones(hidden.shape[0], dtype=torch.long)
        finished = torch.zeros(hidden.shape[0], dtype=torch.bool)
        tokens = []
        for _ in range(max_len):
            hidden = self.cell(self.embed(token), hidden)
            token = self.out(hidden).argmax(-1)
            token = torch.where(finished, torch.full_like(token, PAD), token)
            finished = finished | (token == EOS)
            tokens.append(token)
            if finished.all():
                break
        return torch.stack(tokens, dim=1)


torch.manual_seed(3)
decoder = torch.compile(Decoder())
with torch.no_grad():
    print(decoder(torch.randn(3, 16)).shape)
