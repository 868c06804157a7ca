"""No compiler is mentioned here: `dynascope run` compiles the functions that take tensors."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return torch.softmax(self.layers(x), dim=-1)


def entropy(probabilities):
    return -(probabilities * probabilities.log()).sum(-1).mean()


def main():
    torch.manual_seed(0)
    model = Classifier()
    print(f"{entropy(model(torch.randn(8, 16))).item():.4f}")


if __name__ == "__main__":
    main()
