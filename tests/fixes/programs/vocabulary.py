"""Words looked up in a dictionary."""

import torch

WORDS = {0: "a", 1: "the", 2: "cat", 3: "sat"}


@torch.compile
def decode(logits):
    scores = logits.log_softmax(-1)
    ids = scores.argmax(-1)
    words = [WORDS[i] for i in ids.tolist()]
    return " ".join(words), scores.max(-1).values.sum()


torch.manual_seed(0)
print(decode(torch.randn(5, 4)))
