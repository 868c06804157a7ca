"""A block that warns of large activations."""

import logging

import torch

log = logging.getLogger("block")
logging.basicConfig(level=logging.WARNING)


@torch.compile
def block(x):
    y = torch.relu(x) * 3
    if y.max() > 100:
        log.warning("large activations")
    return y.mean(0)


block(torch.ones(4, 8))
