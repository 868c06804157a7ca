"""A gate that looks at a tensor's value: one graph ends at the `if`, another begins in the branch."""

import torch


@torch.compile
def gate(signal, weight):
    scaled = torch.tanh(signal) * weight + 1.0
    if scaled.sum() > 0:
        return torch.relu(scaled)
    return torch.sigmoid(scaled)


@torch.compile
def normalize(signal):
    centred = signal - signal.mean(dim=-1, keepdim=True)
    return centred / (centred.pow(2).mean(dim=-1, keepdim=True) + 1e-5).sqrt()


signal = torch.linspace(-1.0, 1.0, 512).reshape(8, 64)
weight = torch.ones(64)
for step in range(3):
    result = normalize(gate(signal, weight))
    print(f"step {step}: {tuple(result.shape)}, largest {result.max().item():.3f}")
