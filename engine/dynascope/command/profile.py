"""`dynascope profile FILE`: what each kernel and line costs over the run, and each function beside eager.

step        2.1 ms -> 0.6 ms a call (3.5 times as fast as eager)
the dearest lines: ...
"""

from __future__ import annotations

import argparse
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path

from dynascope.command.run import run_for_report
from dynascope.report.costs import Cost, beside_eager, costs, duration, line_costs
from dynascope.report.facts import CompileReport

LINES_SHOWN = 5
COSTS_SHOWN = 12


def profile(options: argparse.Namespace) -> int:
    """The program's own exit code."""
    options.profile = True
    code, report = run_for_report(options)
    if report is None:
        return code
    print(profile_text(report), file=sys.stderr)
    return code


def profile_text(report: CompileReport) -> str:
    found = costs(report)
    if not found:
        return "Nothing was measured: no kernel of ours ran."
    return "\n".join([*_functions(report), *_lines(report), *_kernels(report, found)])


def _functions(report: CompileReport) -> Iterator[str]:
    """A function in parts counts all its graphs: one call with its backward passes."""
    for function in report.functions:
        together = beside_eager(report, {entry.graph for entry in function.entries if entry.graph})
        if together is not None:
            times = together.eager / together.compiled if together.compiled else 1.0
            yield f"{function.name}: {duration(together.eager)} -> {duration(together.compiled)} ({_beside(times)})"


def _beside(times: float) -> str:
    if f"{max(times, 1 / times):.1f}" == "1.0":
        return "as fast as eager"
    return f"{times:.1f} times as fast as eager" if times > 1 else f"{1 / times:.1f} times as slow as eager"


def _lines(report: CompileReport) -> Iterator[str]:
    found = sorted(line_costs(report).items(), key=lambda item: -item[1])[:LINES_SHOWN]
    total = sum(cost.seconds for cost in costs(report)) or 1.0
    yield "The dearest lines, over the run:"
    for (file, line), seconds in found:
        text = linecache.getline(file, line).strip()
        yield f"  {duration(seconds):>8}  {seconds / total:4.0%}  {Path(file).name}:{line}  {text}"


def _kernels(report: CompileReport, found: list[Cost]) -> Iterator[str]:
    yield "Kernels and library calls:"
    for cost in found[:COSTS_SHOWN]:
        lines = ", ".join(dict.fromkeys(f"{span.line}" for span in cost.spans))
        moved = "" if cost.bandwidth is None else f", {_bandwidth(cost.bandwidth)}"
        each = duration(cost.seconds / cost.calls) if cost.calls else "0"
        where = f" for line {lines}" if lines else ""
        yield f"  {duration(cost.seconds):>8}  {cost.share:4.0%}  {cost.name} ({cost.phase}){where}: {cost.calls} x {each}{moved}"
    if len(found) > COSTS_SHOWN:
        rest = found[COSTS_SHOWN:]
        yield f"  {duration(sum(cost.seconds for cost in rest)):>8}        in {len(rest)} more"


def _bandwidth(share: float) -> str:
    return f"{share:.0%} of bandwidth" if share <= 1 else "from the cache"
