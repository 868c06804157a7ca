"""The best accuracy and the epoch of it, in an object's dict."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
state = {"best": 0.0, "epoch": -1}


@torch.compile
def evaluate(x, y, epoch):
    accuracy = (model(x).argmax(-1) == y).float().mean()
    if accuracy > state["best"]:
        state["best"] = accuracy.item()
        state["epoch"] = epoch
        print(f"new best {accuracy.item():.2%}")
    return accuracy


for epoch in range(3):
    evaluate(torch.randn(16, 4), torch.randint(0, 3, (16,)), epoch)
print(state["epoch"])
