import torch


@torch.compile
def f(losses, mask):
    return losses[mask].mean() + 1


f(torch.rand(8), torch.tensor([True, False] * 4))
