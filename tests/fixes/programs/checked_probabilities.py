"""Assertions about values, as research code has them."""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(k))
        self.means = nn.Parameter(torch.randn(k))

    def forward(self, x):
        assert not torch.isnan(x).any(), "NaN in the input"
        weights = self.logits.softmax(0)
        assert torch.allclose(weights.sum(), torch.tensor(1.0)), "weights do not add up"
        density = (weights * torch.exp(-0.5 * (x[:, None] - self.means) ** 2)).sum(1)
        assert (density >= 0).all() and density.max().item() <= 1.0 + 1e-6, f"bad density {density.max().item()}"
        return -density.log().mean()


torch.manual_seed(0)
model = torch.compile(Mixture())
for _ in range(2):
    model(torch.randn(7)).backward()
print(f"{model.means.grad.sum():.3f}")
