"""Sizes that vary: how often models are compiled for ten shapes, and what a call of varying sizes costs beside a static one.

    python bench/sizes.py                       all, into RESULTS.md
    python bench/sizes.py compilations stages   two of: compilations, uses, stages, kernels

Lengths 7, 8, 9, 16, 33, 64 in batches of 4, then batches 1, 2, 3, 5 of length 16. A compilation is a graph that a backend gets.
Uses: an int that is 1 to 12 from call to call, in every way that the tests know, upwards and mixed (5, 7, 12, 11, ...): graphs that
were compiled, ours to kernels' texts and beyond, torch.compile's for `backend="eager"`.
Stages: seconds from capture to the kernels' text of a call whose batch and length are symbolic, beside the same with static ones.
Kernels: one warm call of each case of `cpu_kernels.py`, static / symbolic, at the same sizes.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
import types
import warnings
from pathlib import Path

import dynascope
import torch
from dynascope import captured_graphs, pipeline
from measure import compare
from results import write_section

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "api"))
from test_tensors_of_other_sizes import MODELS  # noqa: E402
from test_uses_of_a_number import MORE, USES, X, outcome, same  # noqa: E402
from test_uses_of_a_number import PARTS as PARTED

SHAPES = [*((4, length) for length in (7, 8, 9, 16, 33, 64)), *((batch, 16) for batch in (1, 2, 3, 5))]


def main() -> None:
    parser = argparse.ArgumentParser(description="Sizes that vary, beside static ones and torch.compile; writes RESULTS.md.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parts = parser.parse_args().parts or [*PARTS]
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]}; there are {', '.join(PARTS)}")
    torch.set_num_threads(1)
    for part in parts:
        PARTS[part]()


def count_compilations() -> None:
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


ORDERS = (list(range(1, 13)), [5, 7, 12, 11, 10, 9, 8, 6, 4, 3, 2, 1])
LIMIT = 64


def count_uses() -> None:
    """One row for all that need no more than two (and one for the number 1, where it is not the first), a row for each other."""
    torch._dynamo.config.recompile_limit = LIMIT
    torch._logging.set_logs(all=50)
    warnings.simplefilter("ignore")
    few, rows, different, totals = 0, [], 0, [[0, 0], [0, 0]]
    for name, use in (USES | PARTED).items():
        counts = []
        for at, numbers in enumerate(ORDERS):
            ours, wrong = graphs_of_ours(use, numbers)
            theirs = graphs_of_theirs(use, numbers)
            counts += [ours, theirs]
            different += wrong
            totals[at][0] += ours
            totals[at][1] += theirs
        few += counts[0] <= 2 and counts[2] <= 3
        if not (counts[0] <= 2 and counts[2] <= 3):
            why = "as many parts" if name in PARTED else "a branch" if name in MORE else ""
            rows.append([name, *map(str, counts), why])
        print(name, *counts, wrong or "", flush=True)
    sums = [str(total) for pair in totals for total in pair]
    rows.insert(0, [f"{few} of {len(USES | PARTED)} uses", "at most 2", "", "at most 3", "", ""])
    rows.insert(1, ["all, graphs in sum", *sums, ""])
    columns = ["use", "ours, 1 to 12", "torch.compile", "ours, mixed", "torch.compile", "why more"]
    values = len(ORDERS) * len(ORDERS[0]) * len(USES | PARTED)
    note = f"{values} results compared with eager's: {different} different. Mixed orders meet 1 last, which is a case of its own."
    write_section("Uses of a number", "python bench/sizes.py uses", columns, rows, note)


def graphs_of_ours(use, numbers: list[int]) -> tuple[int, int]:
    """How many graphs were compiled, and how many results are not eager's."""
    made, compile_graph = [], captured_graphs.compile_graph

    def counted(*arguments, **keywords):
        made.append(compile_graph(*arguments, **keywords))
        return made[-1]

    dynascope.reset()
    compiled, wrong = dynascope.compile(use, options={"recompile_limit": LIMIT}), 0
    captured_graphs.compile_graph = counted
    try:
        for n in numbers:
            torch.manual_seed(0)
            theirs = outcome(use, n)
            torch.manual_seed(0)
            wrong += differs(outcome(compiled, n), theirs)
    finally:
        captured_graphs.compile_graph = compile_graph
    return len(made), wrong


def differs(ours, theirs) -> bool:
    return isinstance(ours, type) != isinstance(theirs, type) or not same(ours, theirs)


def graphs_of_theirs(use, numbers: list[int]) -> int:
    made = []

    def counting(graph, example_inputs):
        made.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(use, backend=counting)
    for n in numbers:
        with contextlib.suppress(Exception):
            compiled(X.clone(), n)
    return len(made)


def time_stages() -> None:
    rows, ratios = [], []
    pipeline.time = types.SimpleNamespace(perf_counter=time.process_time)  # other programs' work is none of ours
    for name in MODELS:
        sides: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for dynamic in sides:
                sides[dynamic].append(stage_seconds(name, dynamic))
        symbolic, static = (statistics.median(sum(each.values()) for each in sides[way]) for way in (True, False))
        medians = {way: {s: statistics.median(e.get(s, 0) for e in sides[way]) * 1e3 for s in sides[way][0]} for way in sides}
        stages = [f"{stage} {ms:.0f} / {medians[False].get(stage, 0):.0f}" for stage, ms in medians[True].items()]
        ratios.append(symbolic / static)
        rows.append([name, f"{symbolic * 1e3:.0f}", f"{static * 1e3:.0f}", f"{ratios[-1]:.2f}", ", ".join(stages)])
        print(" | ".join(rows[-1]), flush=True)
    rows.append(["geomean", "", "", f"{statistics.geometric_mean(ratios):.2f}", ""])
    columns = ["model", "symbolic, ms", "static, ms", "symbolic / static", "by stage, ms"]
    note = f"Processor time, median of {ROUNDS} first calls in one process, in turns; building (the system's compiler) left out."
    write_section("Stages of symbolic captures", "python bench/sizes.py stages", columns, rows, note)


ROUNDS = 9
VARYING = {"convolutions": (0, 2)}
"""The dimensions of batch and length, where they are not the first two."""


def stage_seconds(name: str, dynamic: bool) -> dict[str, float]:
    make, given = MODELS[name]
    torch.manual_seed(0)
    model, x = dynascope.compile(make(), dynamic=None if dynamic else False), given(5, 24)
    for dimension in VARYING.get(name, (0, 1)) if dynamic else ():
        dynascope.mark_dynamic(x, dimension)
    found: dict[str, float] = {}
    for function in dynascope.explain(model)(x).report.functions:
        for entry in function.entries:
            for stage, seconds in entry.seconds.items():
                if stage != "build":
                    found[stage] = found.get(stage, 0.0) + seconds
    return found


def compare_kernels() -> None:
    import cpu_kernels
    import cpu_programs

    rows, ratios = [], []
    for case in cpu_programs.CASES:
        torch.manual_seed(0)
        function, inputs = case.make()
        calls = {
            way: cpu_kernels.compiled_call(case, function, inputs, dynamic=way == "symbolic")
            for way in ("symbolic", "static")
        }
        measured = compare(calls, clock=time.thread_time)
        ratio = measured.ratio("static", "symbolic")
        ratios.append(ratio.median)
        rows.append([case.name, *(f"{measured.median(way) * 1e6:.1f}" for way in calls), str(ratio)])
        print(" | ".join(rows[-1]), flush=True)
    rows.append(["geomean", "", "", f"{statistics.geometric_mean(ratios):.3f}"])
    columns = ["case", "symbolic, us", "static, us", "static / symbolic"]
    write_section("Symbolic kernels", "python bench/sizes.py kernels", columns, rows, "One thread, its processor time.")


PARTS = {"compilations": count_compilations, "uses": count_uses, "stages": time_stages, "kernels": compare_kernels}


if __name__ == "__main__":
    main()
