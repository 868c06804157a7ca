"""A module in Lightning's style, with a small trainer beside it."""

import torch
import torch.nn.functional as F
from torch import nn


class LitModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.logged = {}
        self.current_epoch = 0

    def log(self, name, value, prog_bar=False):
        if torch.is_tensor(value):
            value = value.detach().item()
        self.logged.setdefault(name, []).append(value)
        if prog_bar:
            print(f"{name}={value:.3f}", end=" ")


class LitClassifier(LitModule):
    def __init__(self, classes=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.encoder(x))

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        acc = (logits.argmax(-1) == y).float().mean()
        self.log("train_loss", loss, prog_bar=True)
        self.log("train_acc", acc, prog_bar=True)
        return loss


torch.manual_seed(0)
module = LitClassifier()
step = torch.compile(module.training_step)
optimizer = torch.optim.Adam(module.parameters())
for index in range(3):
    loss = step((torch.randn(8, 8), torch.randint(0, 3, (8,))), index)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print()
