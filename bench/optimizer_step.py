"""One training step with AdamW over 24 layers of 6 parameters, on a GPU: eager, ours and torch.compile in turn.

    PYTHONPATH=engine python bench/optimizer_step.py

Forward, backward and the update are one function of small layers, so that what is measured is mostly launches and the update.
Printed: milliseconds, medians of seven rounds of five calls. Needs CUDA.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import dynascope
import torch
from torch import nn

LAYERS, WIDTH, ROUNDS, CALLS = 24, 256, 7, 5


def layer() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))


def training_step(compile: Callable[..., Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(*[layer() for _ in range(LAYERS)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return compile(step)


def milliseconds(step: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        step(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / CALLS * 1e3


def main() -> None:
    x = torch.randn(64, WIDTH, device="cuda")
    sides = {"eager": lambda step: step, "ours": dynascope.compile, "torch.compile": torch.compile}
    steps = {name: training_step(compile) for name, compile in sides.items()}
    for step in steps.values():
        for _ in range(4):
            step(x)
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            found[name].append(milliseconds(step, x))
    for name, times in found.items():
        print(f"{name:14} {statistics.median(times):7.2f} ms ({min(times):.2f} to {max(times):.2f})")


if __name__ == "__main__":
    main()
