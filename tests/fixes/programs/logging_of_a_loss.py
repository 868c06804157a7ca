import logging

import torch

logger = logging.getLogger("train")


@torch.compile
def f(x, target):
    loss = ((x - target) ** 2).mean()
    logger.info("loss %.3f", loss.item())
    return loss


f(torch.randn(4), torch.randn(4))
