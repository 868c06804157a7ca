"""A training step that returns a dict of metrics as numbers."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)


@torch.compile
def step(x, beta=0.1):
    mu, logvar = encoder(x).chunk(2, -1)
    z = mu + torch.exp(0.5 * logvar)
    recon = nn.functional.mse_loss(decoder(z), x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
    loss = recon + beta * kl
    metrics = {"loss": loss.item(), "recon": recon.item(), "kl": kl.item()}
    if metrics["kl"] > 10:
        metrics["warning"] = 1.0
    return loss, metrics


for _ in range(2):
    loss, metrics = step(torch.randn(5, 6))
    loss.backward()
    print({name: round(value, 3) for name, value in metrics.items()})
