"""A library that logs each call."""

import logging

import torch

logger = logging.getLogger(__name__)
logging.basicConfig(level=logging.INFO)


@torch.compile
def encode(x):
    logger.info("encoding")
    y = torch.tanh(x)
    logger.info("encoded")
    return y * 2


encode(torch.ones(4))
