"""The rate while a counter of steps is below a limit."""

import torch


@torch.compile
def rate(step, base):
    if step < 10:
        factor = step / 10
    else:
        factor = torch.ones(())
    return base * factor


rate(torch.tensor(3.0), torch.tensor(0.1))
rate(torch.tensor(30.0), torch.tensor(0.1))
