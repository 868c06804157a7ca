"""Fused kernels on the CPU: ours, torch.compile's and eager's, in turn.

    python bench/cpu_kernels.py                          all cases, into RESULTS.md
    python bench/cpu_kernels.py --functions              functions of numbers alone, into a section of their own
    python bench/cpu_kernels.py softmax gelu --no-inductor --print    cases whose name holds a word, for a first look

Each case is a function and its arguments; a case with a gradient times forward and backward together. Random numbers of
the dropout case are the device's on our side (`random="device"`), which is what torch.compile does too.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import cpu_programs
import dynascope
import torch
from measure import compare
from recorded import recorded
from results import write_section

COMMAND = "python bench/cpu_kernels.py"


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    rows, against_eager, against_inductor = [], [], []
    for case in cpu_programs.FUNCTIONS if options.functions else cpu_programs.CASES:
        if options.words and not any(word in case.name for word in options.words):
            continue
        torch.manual_seed(0)
        row, measured = measure(case, options)
        rows.append(row)
        against_eager.append(measured.ratio("ours", "eager").median)
        if not options.no_inductor:
            against_inductor.append(measured.ratio("ours", "theirs").median)
        print(" | ".join(row), flush=True)
    geomeans = [["geomean", "", "", "", *(geomean(part) for part in (against_eager, against_inductor) if part)]]
    if options.words or options.no_inductor or options.print:
        print(" | ".join(geomeans[0]))
        return
    columns = ["case", "ours, us", "torch.compile, us", "eager, us", "ours / eager", "ours / torch.compile"]
    clock = " (its processor time)" if options.threads == 1 else ""
    note = (
        f"Threads: {options.threads}{clock}. Ratio: median of {options.rounds} rounds (quartiles). "
        "With backward: forward and backward in one call."
    )
    section = "Functions of numbers on a processor" if options.functions else "CPU kernels"
    write_section(section, command(options), columns, rows + geomeans, note)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--print", action="store_true", help="leave RESULTS.md alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    return parser.parse_args()


def command(options: argparse.Namespace) -> str:
    which = " --functions" if options.functions else ""
    return COMMAND + which + (f" --threads {options.threads}" if options.threads != 1 else "")


def measure(case: cpu_programs.Case, options: argparse.Namespace):
    function, inputs = case.make()
    calls = {"ours": compiled_call(case, function, inputs), "eager": case.call(function, inputs)}
    if not options.no_inductor:
        calls["theirs"] = case.call(torch.compile(function), inputs)
    if case.deterministic:
        check(case.name, calls["ours"](), calls["eager"]())
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    measured = compare(calls, rounds=options.rounds, clock=clock)
    micro = [f"{measured.median(side) * 1e6:.1f}" if side in calls else "" for side in ("ours", "theirs", "eager")]
    ratios = [str(measured.ratio("ours", side)) for side in ("eager", "theirs") if side in calls]
    return [case.name, *micro, *ratios], measured


def compiled_call(
    case: cpu_programs.Case, function: Callable, inputs: tuple, dynamic: bool | None = None
) -> Callable[[], object]:
    """Ours, once called. A case whose kernels were not made runs as eager's operators: its figure would say nothing."""

    def compiled() -> Callable[[], object]:
        call = case.call(dynascope.compile(function, options=case.options, dynamic=dynamic), inputs)
        call()
        return call

    call, report, fell_back = recorded(compiled)
    if fell_back or not report.kernels:
        raise SystemExit(f"{case.name}: {fell_back or 'no kernel was made'}")
    return call


def check(name: str, ours: object, expected: object) -> None:
    """A case that is fast and wrong does not count. (How exact results are is for the tests to say.)"""
    for mine, theirs in zip(tensors(ours), tensors(expected), strict=True):
        limit = 1e-2 if theirs.dtype == torch.bfloat16 else 1e-4
        if not (mine.double() - theirs.double()).norm() <= limit * theirs.double().norm():
            raise SystemExit(f"{name}: a result is wrong")


def tensors(value: object) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


def geomean(ratios: list[float]) -> str:
    return f"{math.exp(statistics.fmean(map(math.log, ratios))):.3g}"


if __name__ == "__main__":
    main()
