"""On a machine with a GPU: dropout + residual, forward and backward, against eager and a copy of the same bytes.

PYTHONPATH=engine python bench/gpu_dropout.py
"""

from __future__ import annotations

import json
import statistics
from functools import partial

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


def measure(dtype):
    x, r, g = (torch.randn(SIZES, device="cuda", dtype=dtype) for _ in range(3))
    copy = milliseconds(lambda: g.copy_(x))
    programs = {"eager": program, "device": dynascope.compile(program, options={"random": "device"})}
    with torch.no_grad():
        forward = {name: milliseconds(partial(call, x, r)) for name, call in programs.items()}
    x.requires_grad_()
    backward = {
        name: milliseconds(partial(torch.autograd.grad, call(x, r), x, g, retain_graph=True))
        for name, call in programs.items()
    }
    shares = {"forward_share": 1.5 * copy / forward["device"], "backward_share": copy / backward["device"]}
    return {"dtype": str(dtype), "copy": copy, "forward": forward, "backward": backward, **shares}


def main():
    for dtype in (torch.bfloat16, torch.float32):
        print(json.dumps(measure(dtype)), flush=True)


if __name__ == "__main__":
    main()
