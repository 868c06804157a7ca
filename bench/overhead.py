"""Warm call overhead: what a call costs beyond the graph's own function, ours against torch.compile.

    python bench/overhead.py

The backend `eager` on both sides isolates guards and dispatch: overhead = call minus calling the captured graph's function
directly with its inputs. The whole call with each side's own kernels (ours, Inductor) is beside it.
"""

from __future__ import annotations

import programs
import torch
from measure import compare, ratio_of
from results import write_section

import dynascope

CASES = {"add of 8 elements": programs.add, "10-layer MLP": programs.mlp10, "50 tensor inputs": programs.inputs50}


def main() -> None:
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 64
    rows = [row for name, make in CASES.items() for row in measure(name, make)]
    columns = ["case", "ours, us", "torch.compile, us", "eager, us", "ours / torch.compile"]
    note = "Overhead: the call with backend `eager` less the captured graph's function alone. Ratio: median of rounds (quartiles)."
    write_section("Warm call overhead", "python bench/overhead.py", columns, rows, note)


def measure(name, make):
    function, arguments = make()
    with torch.no_grad():
        yield overhead_row(name, function, arguments)
        yield whole_call_row(name, function, arguments)


def overhead_row(name, function, arguments):
    captured = []

    def keep(graph, example_inputs):
        inputs = list(example_inputs)
        captured.append(lambda: graph.forward(*inputs))
        return graph.forward

    ours = dynascope.compile(function, backend=keep)
    theirs = torch.compile(function, backend=keep)
    ours(*arguments), theirs(*arguments)
    our_graph, their_graph = captured
    measured = compare(
        {
            "ours": lambda: ours(*arguments),
            "our graph": our_graph,
            "theirs": lambda: theirs(*arguments),
            "their graph": their_graph,
            "eager": lambda: function(*arguments),
        }
    )
    over = {
        side: [max(call - graph, 1e-9) for call, graph in zip(measured.seconds[side], measured.seconds[graph_name], strict=True)]
        for side, graph_name in (("ours", "our graph"), ("theirs", "their graph"))
    }
    micro = [f"{sorted(over[side])[len(over[side]) // 2] * 1e6:.2f}" for side in ("ours", "theirs")]
    return [f"{name}: overhead", *micro, "", str(ratio_of(over["ours"], over["theirs"]))]


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
