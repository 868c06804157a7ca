"""Augmentations that throw dice."""

import random

import torch


@torch.compile
def augment(image, p=0.5):
    if torch.rand(1) < p:
        image = image.flip(-1)
    if random.random() < p:
        image = image * random.uniform(0.8, 1.2)
    if torch.rand(1).item() < p:
        image = image + 0.01 * torch.randn_like(image)
    return image.clamp(0, 1)


@torch.compile
def mixup(x, y, alpha=0.4):
    lam = torch.distributions.Beta(alpha, alpha).sample().item()
    index = torch.randperm(x.size(0))
    if lam < 0.5:
        lam = 1 - lam
    return lam * x + (1 - lam) * x[index], y, y[index], lam


@torch.compile
def random_erase(image, size):
    top = int(torch.randint(0, image.shape[-2] - size, (1,)))
    left = int(torch.randint(0, image.shape[-1] - size, (1,)))
    image[..., top : top + size, left : left + size] = 0
    return image


torch.manual_seed(0)
random.seed(0)
batch = torch.rand(4, 3, 16, 16)
for image in batch:
    augment(image)
mixed = mixup(batch, torch.arange(4))
print(random_erase(mixed[0], 4).shape)
