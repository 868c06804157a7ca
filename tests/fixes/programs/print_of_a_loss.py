"""A training loop's function that prints the loss's size each time."""

import torch


@torch.compile
def train_step(w, x, y):
    error = x @ w - y
    loss = (error * error).mean()
    print("step on", tuple(x.shape))
    return loss


torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
for _ in range(2):
    train_step(w, torch.ones(8, 4), torch.zeros(8)).backward()
