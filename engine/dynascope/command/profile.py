"""`dynascope profile FILE`: what each kernel and line costs over the run, and each function beside eager.

step        2.1 ms -> 0.6 ms a call (3.5 times as fast as eager)
the dearest lines: ...
"""

from __future__ import annotations

import argparse
import linecache
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dynascope.command.run import run_for_report
from dynascope.report.costs import Cost, beside_eager, costs, duration, line_costs
from dynascope.report.facts import CompileReport
from dynascope.report.tables import width_of, wrapped

LINES_SHOWN = 5
COSTS_SHOWN = 12
NO_BREAK = "\N{NO-BREAK SPACE}"
START = " " * 18
"""The place of a cost and its share, before the name of a line or kernel."""


def profile(options: argparse.Namespace) -> int:
    """The program's own exit code."""
    options.profile = True
    code, report = run_for_report(options)
    if report is None:
        return code
    print(profile_text(report, width_of(sys.stderr)), file=sys.stderr)
    return code


def profile_text(report: CompileReport, width: int = 0) -> str:
    """`width` in columns; 0 has no end."""
    found = costs(report)
    if not found:
        return "Nothing was measured: no kernel of ours ran."
    return "\n".join([*_functions(report), *_lines(report, width), *_kernels(report, found, width)])


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


def _lines(report: CompileReport, width: int) -> Iterator[str]:
    found = sorted(line_costs(report).items(), key=lambda item: -item[1])[:LINES_SHOWN]
    total = sum(cost.seconds for cost in costs(report)) or 1.0
    yield "The dearest lines, over the run:"
    for (file, line), seconds in found:
        text = f"{Path(file).name}:{line}  {linecache.getline(file, line).strip()}"
        room = width - len(START)
        yield _row(seconds, seconds / total) + (text[: room - 1] + "…" if width and len(text) > room else text)


def _kernels(report: CompileReport, found: list[Cost], width: int) -> Iterator[str]:
    """Nothing is cut: what sets two kernels apart may stand at the end of a name."""
    yield "Kernels and library calls:"
    found = _together(found)
    for cost in found[:COSTS_SHOWN]:
        lines = [f"{line}" for line in sorted({span.line for span in cost.spans})]
        moved = "" if cost.bandwidth is None else f", {_bandwidth(cost.bandwidth)}"
        each = duration(cost.seconds / cost.calls).replace(" ", NO_BREAK) if cost.calls else "0"
        where = f" for line{'s' * (len(lines) > 1)} {', '.join(lines)}" if lines else ""
        told = f"{cost.name}, {cost.phase}{where}: {cost.calls}{NO_BREAK}x{NO_BREAK}{each}{moved}"
        first, *others = (row.replace(NO_BREAK, " ") for row in wrapped(told, width - len(START) if width else 0))
        yield _row(cost.seconds, cost.share) + first
        yield from (f"{START}{more}" for more in others)
    if len(found) > COSTS_SHOWN:
        rest = found[COSTS_SHOWN:]
        yield f"  {duration(sum(cost.seconds for cost in rest)):>8}        in {len(rest)} more"


def _together(found: list[Cost]) -> list[Cost]:
    """What rows would say in the same words is one of them: the products of equal layers."""
    known: dict[tuple, Cost] = {}
    for cost in found:
        key = (cost.name, cost.phase, cost.spans)
        one = known.get(key)
        if one is not None:
            counted = {"calls": one.calls + cost.calls, "seconds": one.seconds + cost.seconds, "share": one.share + cost.share}
            cost = replace(one, **counted)
        known[key] = cost
    return sorted(known.values(), key=lambda cost: -cost.seconds)


def _row(seconds: float, share: float) -> str:
    return f"  {duration(seconds):>8}  {share:4.0%}  "


def _bandwidth(share: float) -> str:
    return f"{share:.0%} of bandwidth" if share <= 1 else "from the cache"
