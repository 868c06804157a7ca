"""Cross entropy of a linear layer over a vocabulary, forward and backward: ours, torch.compile's and eager's.

    PYTHONPATH=engine python bench/linear_cross_entropy.py         on a GPU where there is one, else on one thread of the processor

Peak memory, on a GPU, is of one step above what is held before it, gradients of hidden states and weights included.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from results import write_section
from written_attention import SIDES, measured, of_side, peak, step

SHAPES = {
    "cuda": ((8192, 768, 50304), (8192, 2048, 128256), (8192, 4096, 128256), (16384, 4096, 128256)),
    "cpu": ((2048, 256, 50304),),
}


def plain(hidden, weight, target):
    logits = hidden @ weight.T
    return F.cross_entropy(logits.view(-1, logits.size(-1)), target.view(-1))


def wide(hidden, weight, target):
    """As language models of libraries do it, with the targets of the next token."""
    logits = F.linear(hidden, weight)[:, :-1].contiguous().float()
    return F.cross_entropy(logits.view(-1, logits.size(-1)), target[:, 1:].reshape(-1), ignore_index=-100)


def row(function, shape: tuple[int, int, int], dtype: torch.dtype, device: str) -> list[str]:
    rows, features, classes = shape
    hidden = torch.randn(8, rows // 8, features, dtype=dtype, device=device, requires_grad=True)
    weight = torch.randn(classes, features, dtype=dtype, device=device).mul_(0.02).requires_grad_()
    target = torch.randint(0, classes, (8, rows // 8), device=device)
    tangent = torch.ones((), dtype=torch.float32 if function is wide else dtype, device=device)
    steps = {side: partial(step, of_side(function, side), (hidden, weight, target), tangent) for side in SIDES}
    training = measured(steps)
    peaks = " / ".join(peak(steps[side]) for side in ("ours", "torch.compile", "eager"))
    name = f"{function.__name__}, {rows} x {features} x {classes}, {str(dtype).removeprefix('torch.')}"
    ratios = [str(training.ratio("ours", base)) for base in ("torch.compile", "eager")]
    return [name, *ratios, *([peaks] if device == "cuda" else [])]


def main() -> None:
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for shape in SHAPES[device]:
        for function in (plain, wide):
            rows.append(row(function, shape, torch.bfloat16 if device == "cuda" else torch.float32, device))
            print(" | ".join(rows[-1]), flush=True)
    columns = ["program, rows x features x classes", "with backward, of torch.compile", "of eager"]
    columns += ["peak MB, ours / torch.compile / eager"] if device == "cuda" else []
    where = "a GPU" if device == "cuda" else "one thread"
    write_section(f"Cross entropy over a vocabulary, {where}", "PYTHONPATH=engine python bench/linear_cross_entropy.py", columns, rows)


if __name__ == "__main__":
    main()
