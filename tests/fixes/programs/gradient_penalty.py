"""A WGAN critic's gradient penalty."""

import torch
from torch import nn

critic = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))


@torch.compile
def critic_loss(real, fake):
    alpha = torch.full((real.shape[0], 1), 0.3)
    mixed = (alpha * real + (1 - alpha) * fake).detach()
    mixed.requires_grad_(True)
    score = critic(mixed)
    (gradient,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
    return critic(fake).mean() - critic(real).mean() + 10.0 * penalty


loss = critic_loss(torch.randn(8, 4), torch.randn(8, 4))
loss.backward()
print(loss.item())
