import torch


@torch.compile
def mismatch(left, right):
    return left @ right


mismatch(torch.ones(2, 3), torch.ones(4, 5))
