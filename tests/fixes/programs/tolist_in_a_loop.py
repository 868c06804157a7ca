import torch


@torch.compile
def f(x, weights):
    y = x
    for weight in weights.tolist():
        y = torch.tanh(y * weight)
    return y


f(torch.randn(8), torch.tensor([0.5, 1.5, 2.0]))
