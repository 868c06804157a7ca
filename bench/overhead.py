"""Warm call overhead: what a call costs beyond the graph's own function, ours against torch.compile.

    python bench/overhead.py

A backend whose function returns a known result at once, on both sides, leaves guards and dispatch: the overhead. The whole
call with each side's own kernels (ours, Inductor) is beside it.
"""

from __future__ import annotations

import dynascope
import programs
import torch
from measure import compare
from results import write_section

CASES = {"add of 8 elements": programs.add, "10-layer MLP": programs.mlp10, "50 tensor inputs": programs.inputs50}


def main() -> None:
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 64
    rows = [row for name, make in CASES.items() for row in measure(name, make)]
    columns = ["case", "ours, us", "torch.compile, us", "eager, us", "ours / torch.compile"]
    note = "Overhead: the call where the graph's function returns a known result at once. Ratio: median of rounds (quartiles)."
    write_section("Warm call overhead", "python bench/overhead.py", columns, rows, note)


def measure(name, make):
    function, arguments = make()
    with torch.no_grad():
        yield overhead_row(name, function, arguments)
        yield whole_call_row(name, function, arguments)


def overhead_row(name, function, arguments):
    def known_answer(graph, example_inputs):
        result = graph.forward(*example_inputs)
        return lambda *inputs: result

    ours, theirs = (compile(function, backend=known_answer) for compile in (dynascope.compile, torch.compile))
    measured = compare({"ours": lambda: ours(*arguments), "theirs": lambda: theirs(*arguments)})
    micro = [f"{measured.median(side) * 1e6:.2f}" for side in ("ours", "theirs")]
    return [f"{name}: overhead", *micro, "", str(measured.ratio("ours", "theirs"))]


def whole_call_row(name, function, arguments):
    ours, theirs = dynascope.compile(function), torch.compile(function)
    measured = compare(
        {
            "ours": lambda: ours(*arguments),
            "theirs": lambda: theirs(*arguments),
            "eager": lambda: function(*arguments),
        }
    )
    micro = [f"{measured.median(side) * 1e6:.2f}" for side in ("ours", "theirs", "eager")]
    return [f"{name}: whole call", *micro, str(measured.ratio("ours", "theirs"))]


if __name__ == "__main__":
    main()
