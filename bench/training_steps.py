"""Whole training steps as one compiled function: forward, backward and the optimizer's step, ours beside torch.compile and eager.

    python bench/training_steps.py [--threads 2]

Graphs are those that a counting backend gets; torch.compile ends its own before `backward()` and compiles the rest anew. Warm times
are through the default backends, the three interleaved.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import dynascope
import torch
from measure import compare
from programs import Block
from results import write_section
from torch import nn
from torch.nn import functional as F


def perceptron() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10))
    return model, torch.randn(128, 64), torch.randint(10, (128,))


def image() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 64, 10)
    )
    return model, torch.randn(16, 3, 16, 16), torch.randint(10, (16,))


def decoder() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    blocks = [Block(128, 4) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(100, 128), *blocks, nn.LayerNorm(128), nn.Linear(128, 100), nn.Flatten(0, 1))
    return model, torch.randint(100, (4, 64)), torch.randint(100, (256,))


CASES: dict[str, tuple[Callable[[], tuple], Callable[[Any], torch.optim.Optimizer]]] = {
    "perceptron, SGD": (perceptron, lambda p: torch.optim.SGD(p, 0.01, momentum=0.9)),
    "perceptron, Adam": (perceptron, lambda p: torch.optim.Adam(p, 1e-3)),
    "convolution, SGD": (image, lambda p: torch.optim.SGD(p, 0.01, momentum=0.9)),
    "4 decoder blocks, AdamW": (decoder, lambda p: torch.optim.AdamW(p, 1e-3)),
}


def step_of(name: str) -> Callable[[], torch.Tensor]:
    make, make_optimizer = CASES[name]
    torch.manual_seed(0)
    model, x, y = make()
    optimizer = make_optimizer(model.parameters())

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def graphs(compile: Callable, name: str) -> int:
    made = []

    def counting(graph: Any, example_inputs: Any) -> Callable:
        made.append(graph)
        return graph.forward

    if compile is dynascope.compile:
        return dynascope.explain(step_of(name))().graph_count
    torch._dynamo.reset()
    compile(step_of(name), backend=counting)()
    return len(made)


def first_calls(name: str) -> tuple[float, float]:
    seconds = []
    for compile in (dynascope.compile, torch.compile):
        torch._dynamo.reset()
        step = compile(step_of(name))
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]


def row(name: str) -> list[str]:
    counts = [graphs(compile, name) for compile in (dynascope.compile, torch.compile)]
    eager, ours, theirs = step_of(name), dynascope.compile(step_of(name)), torch.compile(step_of(name))
    for _ in range(3):
        losses = [step().item() for step in (eager, ours, theirs)]
    if abs(losses[0] - losses[1]) > 1e-3 * abs(losses[0]):
        raise SystemExit(f"{name}: the loss is {losses[1]}, eager's {losses[0]}")
    warm = compare({"ours": ours, "torch.compile": theirs, "eager": eager}, rounds=11, seconds_a_round=0.1)
    first = first_calls(name)
    return [
        name, *map(str, counts), str(warm.ratio("ours", "torch.compile")), str(warm.ratio("ours", "eager")),
        f"{first[0] / first[1]:.2g}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    rows = [row(name) for name in CASES]
    columns = ["step", "graphs, ours", "graphs, torch.compile", "warm, ours / torch.compile", "warm, ours / eager"]
    note = f"{threads} threads. Median of rounds (quartiles); the first calls are one each, in one process, its caches filled or not alike."
    command = f"python bench/training_steps.py --threads {threads}"
    write_section("Training steps", command, [*columns, "first call, ours / torch.compile"], rows, note)


if __name__ == "__main__":
    main()
