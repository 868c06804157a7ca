"""Running statistics that are updated only for good batches."""
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, d, momentum=0.1):
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("var", torch.ones(d))
        self.momentum = momentum

    def forward(self, x):
        mean, var = x.mean(0), x.var(0)
        if torch.isfinite(mean).all():
            self.mean.lerp_(mean.detach(), self.momentum)
            self.var.mul_(1 - self.momentum).add_(var.detach(), alpha=self.momentum)
        return (x - self.mean) / (self.var + 1e-5).sqrt()


torch.manual_seed(0)
norm = torch.compile(Norm(4))
for scale in (1.0, float("inf"), 2.0):
    print(norm(torch.randn(8, 4) * scale).nan_to_num(0, 0, 0).sum().item())
