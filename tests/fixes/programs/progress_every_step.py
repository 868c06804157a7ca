import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            print(f"layer {number}: {x.abs().max().item():.3f}")
        return x


torch.manual_seed(0)
model = torch.compile(Model())
model(torch.randn(2, 8))
