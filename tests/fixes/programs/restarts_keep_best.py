"""Fit with random restarts and keep the best."""
import torch


def rosenbrock(p):
    x, y = p[..., 0], p[..., 1]
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


@torch.compile
def search(starts, steps=5, lr=1e-3):
    best = None
    best_point = None
    for start in starts:
        p = start.clone()
        for _ in range(steps):
            x, y = p[0], p[1]
            g = torch.stack([-2 * (1 - x) - 400 * x * (y - x**2), 200 * (y - x**2)])
            p = p - lr * g
        loss = rosenbrock(p)
        if best is None or loss < best:
            best = loss
            best_point = p
    return best_point, best


@torch.compile
def worst(losses):
    worst = None
    for loss in losses:
        if worst is None or loss > worst:
            worst = loss
    return worst


torch.manual_seed(1)
for _ in range(2):
    point, loss = search(torch.rand(4, 2) * 2 - 1)
    print(f"{point[0]:.3f} {point[1]:.3f} {loss:.4f}")
print(f"{worst(torch.rand(5).unbind()):.3f}")
