"""PPO's epochs, left when the KL grows too large."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(4, 2)
old = torch.randn(8).abs().neg()


@torch.compile
def surrogate(obs, actions, advantages, epochs=4, target_kl=0.02):
    total = torch.zeros(())
    for _ in range(epochs):
        logp = policy(obs).log_softmax(-1).gather(1, actions[:, None]).squeeze(1)
        ratio = torch.exp(logp - old)
        total = total - torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        approx_kl = (old - logp).mean()
        if approx_kl > 1.5 * target_kl:
            break
    return total


for _ in range(2):
    loss = surrogate(torch.randn(8, 4), torch.randint(0, 2, (8,)), torch.randn(8))
    loss.backward()
    print(f"{loss:.4f}")
