"""On a machine with a GPU: dropout + residual, forward and backward, against eager and a copy of the same bytes.

    PYTHONPATH=engine python bench/gpu_dropout.py
"""

from __future__ import annotations

import json
import statistics

import dynascope
import torch
import torch.nn.functional as F

SIZES = (16384, 4096)


def milliseconds(call, rounds=15):
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def program(x, r):
    return F.dropout(x, 0.1, True) + r


def main():
    for dtype in (torch.bfloat16, torch.float32):
        x, r, g = (torch.randn(SIZES, device="cuda", dtype=dtype) for _ in range(3))
        copy = milliseconds(lambda: g.copy_(x))
        compiled = dynascope.compile(program, options={"random": "device"})
        with torch.no_grad():
            forward = {"eager": milliseconds(lambda: program(x, r)), "device": milliseconds(lambda: compiled(x, r))}
        x.requires_grad_()
        outputs = {"eager": program(x, r), "device": compiled(x, r)}
        backward = {
            name: milliseconds(lambda y=y: torch.autograd.grad(y, x, g, retain_graph=True)) for name, y in outputs.items()
        }
        print(json.dumps({
            "dtype": str(dtype), "copy": copy, "forward": forward, "backward": backward,
            "forward_share": 1.5 * copy / forward["device"], "backward_share": copy / backward["device"],
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
