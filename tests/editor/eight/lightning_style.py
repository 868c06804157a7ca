"""A module that says how it is trained, and a trainer that does it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
        self.logged = {}

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        scores = self(x)
        loss = nn.functional.cross_entropy(scores, y)
        self.log("accuracy", (scores.argmax(-1) == y).float().mean())
        return loss

    def log(self, name, value):
        self.logged[name] = value

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, module, loader):
        step = torch.compile(module.training_step)
        optimizer = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            for index, batch in enumerate(loader):
                optimizer.zero_grad()
                loss = step(batch, index)
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: {loss.item():.3f}, accuracy {module.logged['accuracy'].item():.2f}")


torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 8), torch.randint(0, 3, (48,)))
Trainer(max_epochs=2).fit(LitClassifier(), DataLoader(data, batch_size=16))
