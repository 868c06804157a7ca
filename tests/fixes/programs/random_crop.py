"""Augmentation with Python's random, and a flip by chance."""

import random

import torch
from torch import nn

conv = nn.Conv2d(3, 4, 3)


@torch.compile
def augment_and_embed(images):
    top = random.randint(0, 4)
    left = random.randint(0, 4)
    images = images[:, :, top : top + 12, left : left + 12]
    if random.random() < 0.5:
        images = images.flip(-1)
    return conv(images).mean((2, 3))


random.seed(0)
torch.manual_seed(0)
for _ in range(3):
    augment_and_embed(torch.randn(2, 3, 16, 16)).sum().backward()
