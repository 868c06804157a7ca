"""Power iteration until the vector stays."""

import torch


@torch.compile
def largest_eigenvalue(matrix, tolerance=1e-4):
    v = torch.ones(matrix.shape[0])
    change = torch.tensor(1.0)
    while change > tolerance:
        w = matrix @ v
        w = w / w.norm()
        change = (w - v).abs().max()
        v = w
    return v @ matrix @ v


torch.manual_seed(0)
a = torch.randn(5, 5)
print(f"{largest_eigenvalue(a @ a.T).item():.2f}")
