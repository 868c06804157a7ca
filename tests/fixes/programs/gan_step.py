"""One step of each player of a GAN."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4)
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4)


@torch.compile
def step(real, iteration):
    fake = G(torch.randn(real.size(0), 4))
    d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = F.softplus(-D(fake)).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if iteration % 2 == 0:
        print(f"[{iteration}] D: {d_loss.item():.3f} G: {g_loss.item():.3f}")
    if d_loss.item() < 0.01:
        print("discriminator is too strong")
    return d_loss.detach(), g_loss.detach()


for iteration in range(3):
    d_loss, g_loss = step(torch.randn(8, 2) + 2, iteration)
