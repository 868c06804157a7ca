"""Sizes that vary: how often models are compiled for ten shapes, and what a call of varying sizes costs beside a static one.

    python bench/sizes.py

Lengths 7, 8, 9, 16, 33, 64 in batches of 4, then batches 1, 2, 3, 5 of length 16. A compilation is a graph that a backend gets.
"""

from __future__ import annotations

import sys
from pathlib import Path

import dynascope
import torch
from measure import compare
from results import write_section

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "api"))
from test_tensors_of_other_sizes import MODELS  # noqa: E402

SHAPES = [*((4, length) for length in (7, 8, 9, 16, 33, 64)), *((batch, 16) for batch in (1, 2, 3, 5))]


def main() -> None:
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 64
    rows = [[name, *(str(compilations(name, *way)) for way in WAYS), warm(name)] for name in MODELS]
    columns = ["model", *(f"{side}, dynamic={dynamic}" for side, (_, dynamic) in zip(SIDES, WAYS, strict=True))]
    note = "The last column: one warm call, varying sizes / static ones, the same kernels' shapes, ours. Median of rounds (quartiles)."
    write_section("Sizes that vary", "python bench/sizes.py", [*columns, "varying / static call"], rows, note)


WAYS = ((dynascope.compile, None), (torch.compile, None), (dynascope.compile, True), (torch.compile, True))
SIDES = ("ours", "torch.compile", "ours", "torch.compile")


def compilations(name: str, compile, dynamic: bool | None) -> int:
    make, given = MODELS[name]
    made = []

    def counting(graph, example_inputs):
        made.append(graph)
        return graph.forward

    torch.manual_seed(0)
    torch._dynamo.reset()
    model = compile(make(), backend=counting, dynamic=dynamic)
    with torch.no_grad():
        for shape in SHAPES:
            model(given(*shape))
    return len(made)


def warm(name: str) -> str:
    make, given = MODELS[name]
    model, x = make(), given(4, 16)
    varying, static = (dynascope.compile(model, dynamic=dynamic) for dynamic in (True, False))
    with torch.no_grad():
        measured = compare({"varying": lambda: varying(x), "static": lambda: static(x)})
    return str(measured.ratio("varying", "static"))


if __name__ == "__main__":
    main()
