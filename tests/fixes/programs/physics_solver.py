"""An adaptive integrator, a line search and a projection."""

import torch


def force(x):
    return -x + 0.1 * torch.sin(3 * x)


@torch.compile
def adaptive_step(x, v, dt, tolerance=1e-3):
    full = x + dt * v, v + dt * force(x)
    half_x, half_v = x + dt / 2 * v, v + dt / 2 * force(x)
    half = half_x + dt / 2 * half_v, half_v + dt / 2 * force(half_x)
    error = (full[0] - half[0]).abs().max()
    if error > tolerance:
        dt = dt * 0.5
    elif error < tolerance / 10:
        dt = dt * 2
    return half[0], half[1], dt


@torch.compile
def line_search(x, direction, loss_fn, t=1.0):
    start = loss_fn(x)
    for _ in range(10):
        if loss_fn(x + t * direction) < start:
            break
        t *= 0.5
    return x + t * direction


@torch.compile
def project(x, radius):
    norm = torch.linalg.norm(x)
    if norm.item() == 0:
        return x
    return x * min(1.0, radius / norm.item())


@torch.compile
def energy(x, v):
    e = 0.5 * (x**2 + v**2).sum()
    if e.isnan() or e.isinf():
        raise RuntimeError("unstable simulation")
    return float(e)


x, v, dt = torch.linspace(-1, 1, 5), torch.zeros(5), 0.1
for _ in range(3):
    x, v, dt = adaptive_step(x, v, dt)
x = line_search(x, -2 * x, lambda y: y.square().sum())
print(round(energy(x, v), 4), project(x, 0.5).norm() <= 0.51)
