"""Attention as programs write it out, forward alone and with its backward pass: ours, torch.compile's and eager's.

    PYTHONPATH=engine python bench/written_attention.py            on a GPU where there is one, else on one thread of the processor

Peak memory, on a GPU, is of one training step above what is held before it.
"""

from __future__ import annotations

import math
from functools import partial

import dynascope
import torch
from gpu_calls import peak_megabytes
from measure import Measured, compare
from results import write_section

SIDES = ("eager", "torch.compile", "ours")


def plain(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v


def causal(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return torch.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1) @ v


def of_side(function, side: str, mode: str | None = None):
    if side == "eager":
        return function
    torch._dynamo.reset()
    return dynascope.compile(function, mode=mode) if side == "ours" else torch.compile(function, dynamic=False, mode=mode)


def forward(call, inputs) -> None:
    with torch.no_grad():
        call(*inputs)
    synchronize()


def step(call, inputs, tangent: torch.Tensor) -> None:
    torch.autograd.grad(call(*inputs), [each for each in inputs if each.requires_grad], tangent)
    synchronize()


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak(run) -> str:
    return f"{peak_megabytes(run):.0f}" if torch.cuda.is_available() else ""


def measured(runs: dict) -> Measured:
    return compare(runs, rounds=11, seconds_a_round=0.05)


def row(function, length: int, dtype: torch.dtype, device: str) -> list[str]:
    batch, heads = (max(1, 8192 // length), 16) if device == "cuda" else (max(1, 1024 // length), 8)
    shape = (batch, heads, length, 64)
    q, k, v = (torch.randn(shape, dtype=dtype, device=device, requires_grad=True) for _ in range(3))
    mask = torch.ones(length, length, device=device).tril()[None, None]
    inputs, tangent = (q, k, v, mask)[: 4 if function is causal else 3], torch.randn_like(q)
    calls = {side: of_side(function, side) for side in SIDES}
    forwards = measured({side: partial(forward, call, inputs) for side, call in calls.items()})
    steps = {side: partial(step, call, inputs, tangent) for side, call in calls.items()}
    training = measured(steps)
    peaks = " / ".join(peak(steps[side]) for side in ("ours", "torch.compile", "eager"))
    ratios = [str(each.ratio("ours", base)) for each in (forwards, training) for base in ("torch.compile", "eager")]
    name = f"{function.__name__}, {'x'.join(map(str, shape))}, {str(dtype).removeprefix('torch.')}"
    return [name, *ratios, *([peaks] if device == "cuda" else [])]


def main() -> None:
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths = (256, 1024, 4096) if device == "cuda" else (128, 256, 1024)
    dtypes = (torch.bfloat16, torch.float32) if device == "cuda" else (torch.float32,)
    rows = []
    for dtype in dtypes:
        for length in lengths:
            for function in (plain, causal):
                rows.append(row(function, length, dtype, device))
                print(" | ".join(rows[-1]), flush=True)
    columns = ["program", "forward, of torch.compile", "of eager", "with backward, of torch.compile", "of eager"]
    columns += ["peak MB, ours / torch.compile / eager"] if device == "cuda" else []
    where = "a GPU" if device == "cuda" else "one thread"
    write_section(f"Attention that a program writes out, {where}", "PYTHONPATH=engine python bench/written_attention.py", columns, rows)


if __name__ == "__main__":
    main()
