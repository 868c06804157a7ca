"""A batch of sequences of several lengths."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.gru = nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.out = nn.Linear(16, 5)

    def forward(self, tokens):
        lengths = (tokens != 0).sum(dim=1)
        max_len = int(lengths.max())
        tokens = tokens[:, :max_len]
        packed = pack_padded_sequence(self.embed(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return self.out(output)


torch.manual_seed(0)
tokens = torch.randint(1, 30, (4, 10))
for row, length in enumerate([7, 3, 5, 2]):
    tokens[row, length:] = 0
model = torch.compile(Tagger())
scores = model(tokens)
scores.sum().backward()
print(scores.shape)
