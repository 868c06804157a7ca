"""A step that prints its accuracy as it goes."""

import torch


@torch.compile
def step(model, x, target):
    logits = model(x)
    correct = (logits.argmax(-1) == target).float().mean()
    print("accuracy", correct.shape)
    return torch.nn.functional.cross_entropy(logits, target) + 0 * correct


torch.manual_seed(0)
model = torch.nn.Linear(8, 3)
step(model, torch.randn(16, 8), torch.randint(0, 3, (16,))).backward()
