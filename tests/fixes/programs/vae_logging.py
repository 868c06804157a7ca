"""A VAE with diagnostics in its loss."""

import logging

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger("vae")


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(12, 8)
        self.dec = nn.Linear(4, 12)
        self.debug = True

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        if self.debug:
            print(f"mu {mu.mean():.3f} std {mu.std():.3f}")
        if (logvar > 20).any():
            logger.warning("logvar exploded")
            logvar = logvar.clamp(max=20)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


@torch.compile
def loss_fn(model, x, beta):
    recon, mu, logvar = model(x)
    rec = F.mse_loss(recon, x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
    assert kl >= 0, f"negative KL: {kl}"
    total = rec + beta * kl
    logger.info("loss %.4f (kl %.4f)", total.item(), kl.item())
    return total


torch.manual_seed(0)
model = VAE()
for beta in (0.1, 0.2):
    loss_fn(model, torch.randn(6, 12), beta).backward()
