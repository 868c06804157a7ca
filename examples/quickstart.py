"""A small model, its loss, and one line that breaks the graph."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        hidden = F.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)


@torch.compile
def loss_of(block, x, target):
    y = block(x)
    loss = F.mse_loss(y, target)
    if loss > 10.0:
        loss = loss.sqrt()
    return loss * 0.5


def main():
    torch.manual_seed(0)
    block = Block(64)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    x, target = torch.randn(32, 64), torch.randn(32, 64)
    for step in range(3):
        loss = loss_of(block, x, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
