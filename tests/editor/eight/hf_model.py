"""A model of transformers, made from its configuration."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=64)
model = torch.compile(GPT2LMHeadModel(config).eval())
tokens = torch.randint(0, 100, (1, 12))
with torch.no_grad():
    print(model(tokens).logits.shape)
loss = model(tokens, labels=tokens).loss
loss.backward()
print(f"loss {loss.item():.2f}")
