"""Orbits are followed for some steps, with an assertion at each that none diverged."""

import torch


@torch.compile
def simulate(position, velocity, dt, steps):
    energy = []
    for step in range(steps):
        r = position.norm(dim=1, keepdim=True)
        if (r < 0.1).any():
            r = r.clamp(min=0.1)
        acceleration = -position / r ** 3
        velocity = velocity + dt * acceleration
        position = position + dt * velocity
        kinetic = 0.5 * velocity.pow(2).sum()
        potential = -(1 / r).sum()
        energy.append((kinetic + potential).item())
        assert not torch.isnan(position).any(), f"diverged at step {step}"
    drift = abs(energy[-1] - energy[0])
    return position, velocity, drift


torch.manual_seed(0)
p, v = torch.randn(5, 2) + 3, torch.randn(5, 2) * 0.1
for dt in (0.01, 0.02, 0.04):
    p, v, drift = simulate(p, v, dt, 4)
    print(f"{dt}: {drift:.5f}")
