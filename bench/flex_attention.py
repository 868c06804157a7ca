"""`flex_attention` on a GPU, forward alone and with its backward pass: ours, torch.compile's and eager's.

    PYTHONPATH=engine python bench/flex_attention.py

Eager makes all scores in memory. Peak memory is of one training step above what is held before it.
"""

from __future__ import annotations

from functools import partial

import torch
from gpu_calls import peak_megabytes
from measure import compare
from results import write_section
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from written_attention import SIDES, forward, of_side, step

BATCH, HEADS = 4, 16


def causal(batch, head, row, column):
    return row >= column


def of_a_window(batch, head, row, column):
    return (row >= column) & (row - column < 256)


def with_the_first(batch, head, row, column):
    return (row >= column) & ((column < 64) | (batch > 1))


def capped(score, batch, head, row, column):
    return torch.tanh(score / 20) * 20


def programs(length: int):
    """By name the mask and what changes the scores."""
    documents, slopes = torch.arange(length, device="cuda") // 300, torch.rand(HEADS, device="cuda")

    def of_a_document(batch, head, row, column):
        return (row >= column) & (documents[row] == documents[column])

    def sloped(score, batch, head, row, column):
        return score + slopes[head] * (row - column)

    return {
        "causal": (causal, None),
        "window of 256": (of_a_window, None),
        "documents of 300": (of_a_document, None),
        "prefix by batch": (with_the_first, None),
        "causal, capped scores": (causal, capped),
        "causal, ALiBi": (causal, sloped),
        "all, capped scores": (None, capped),
    }


def row(name: str, mask, score_mod, length: int, width: int) -> list[str]:
    sizes = BATCH, HEADS, length, width
    q, k, v = (torch.randn(sizes, dtype=torch.bfloat16, device="cuda", requires_grad=True) for _ in range(3))
    blocks = None if mask is None else create_block_mask(mask, BATCH, None, length, length)

    def function(q, k, v):
        return flex_attention(q, k, v, score_mod=score_mod, block_mask=blocks)

    inputs, tangent = (q, k, v), torch.randn_like(q)
    calls = {side: of_side(function, side) for side in SIDES}
    steps = {side: partial(step, call, inputs, tangent) for side, call in calls.items()}
    forwards = {side: partial(forward, call, inputs) for side, call in calls.items()}
    measured = [compare(runs, rounds=9, seconds_a_round=0.04) for runs in (forwards, steps)]
    peaks = " / ".join(f"{peak_megabytes(steps[side]):.0f}" for side in ("ours", "torch.compile", "eager"))
    ratios = [str(each.ratio("ours", base)) for each in measured for base in ("torch.compile", "eager")]
    return [f"{name}, {'x'.join(map(str, sizes))}", *ratios, peaks]


COLUMNS = [
    *("program, bfloat16", "forward, of torch.compile", "of eager", "with backward, of torch.compile", "of eager"),
    "peak MB, ours / torch.compile / eager",
]


def main() -> None:
    rows = []
    for length, width in ((2048, 64), (2048, 128)):
        for name, (mask, score_mod) in programs(length).items():
            rows.append(row(name, mask, score_mod, length, width))
            print(" | ".join(rows[-1]), flush=True)
            write_section("flex_attention, a GPU", "PYTHONPATH=engine python bench/flex_attention.py", COLUMNS, rows)


if __name__ == "__main__":
    main()
