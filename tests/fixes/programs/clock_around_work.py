import logging
import time

import torch


@torch.compile
def f(x):
    started = time.perf_counter()
    y = torch.tanh(x) @ x.T
    elapsed = time.perf_counter() - started
    logging.getLogger("time").debug("took %s", elapsed)
    return y


f(torch.randn(8, 8))
