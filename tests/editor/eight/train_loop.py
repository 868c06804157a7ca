"""A training loop over nn.Sequential, as tutorials write it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_one_epoch(model, loader, optimizer, loss_fn):
    total = 0.0
    for xb, yb in loader:
        optimizer.zero_grad()
        pred = model(xb).squeeze(-1)
        loss = loss_fn(pred, yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    return total / len(loader.dataset)


torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(20, 64),
    nn.ReLU(),
    nn.Linear(64, 1),
)
model = torch.compile(model)
loader = DataLoader(TensorDataset(torch.randn(96, 20), torch.randn(96)), batch_size=32)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    print(f"epoch {epoch}: {train_one_epoch(model, loader, optimizer, nn.MSELoss()):.3f}")
