"""Products of matrices with what follows them, on a GPU: eager, torch.compile and ours, by default and measured.

    PYTHONPATH=engine python bench/gpu_products.py

Without gradients and without recorded launches, so that only kernels count.
"""

from __future__ import annotations

from functools import partial

import dynascope
import torch
import torch.nn.functional as F
from measure import compare
from results import write_section
from written_attention import of_side

MEASURED = "max-autotune-no-cudagraphs"
SIDES = ("eager", "torch.compile", f"torch.compile {MEASURED}", "ours", f"ours {MEASURED}")


def up(x, w, b):
    return F.gelu(F.linear(x, w, b), approximate="tanh")


def down(x, w, b, residual):
    return residual + F.linear(x, w, b)


def gated(x, w, v):
    return F.silu(F.linear(x, w)) * F.linear(x, v)


def rectified(x, w, b):
    return F.relu(F.linear(x, w, b)).square()


def operands(function, rows: int, features: int, columns: int) -> list[torch.Tensor]:
    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, dtype=torch.bfloat16, device="cuda")

    weight = random(columns, features) * features**-0.5
    if function is gated:
        return [random(rows, features), weight, random(columns, features) * features**-0.5]
    rest = [random(rows, columns)] if function is down else []
    return [random(rows, features), weight, random(columns), *rest]


CASES = (
    (up, 8192, 768, 3072), (down, 8192, 3072, 768), (rectified, 8192, 1024, 4096), (gated, 4096, 4096, 11008),
    (up, 16384, 256, 1024), (down, 16, 4096, 4096), (gated, 1, 4096, 11008),
)  # fmt: skip


def row(function, rows: int, features: int, columns: int) -> list[str]:
    inputs = operands(function, rows, features, columns)
    calls = {side: of_side(function, side.split()[0], MEASURED if MEASURED in side else None) for side in SIDES}
    wanted = function(*(each.double() for each in inputs))
    errors = {side: (call(*inputs).double() - wanted).abs().max().item() for side, call in calls.items()}
    assert errors[SIDES[-1]] <= 2 * errors["eager"], errors

    def run(call) -> None:
        for _ in range(10):
            call(*inputs)
        torch.cuda.synchronize()

    with torch.no_grad():
        found = compare({side: partial(run, call) for side, call in calls.items()}, rounds=11, seconds_a_round=0.05)
    report = dynascope.explain(calls[SIDES[-1]], *inputs).report
    won = any("multiplied = " in kernel.text for kernel in report.kernels)
    ratios = [str(found.ratio(SIDES[-1], side)) for side in SIDES[:-1]]
    return [f"{function.__name__}, {rows} x {features} x {columns}", *ratios, "ours" if won else "the library's"]


def main() -> None:
    rows = []
    for case in CASES:
        rows.append(row(*case))
        print(" | ".join(rows[-1]), flush=True)
    columns = ["program, rows x features x columns", *(f"of {side}" for side in SIDES[:-1]), "product by"]
    write_section("Products measured, a GPU", "PYTHONPATH=engine python bench/gpu_products.py", columns, rows)


if __name__ == "__main__":
    main()
