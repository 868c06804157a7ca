"""What compiling cost and what it was used for, by function: the stages' seconds, and how many calls each compilation served.

    function   compiled   calls   seconds   capture   differentiate   ...   build
    step              2      50      0.42     0.050           0.020         0.300
"""

from __future__ import annotations

from collections.abc import Iterable

from dynascope.report.facts import CompileReport, FunctionFact

FLOW = ("capture", "differentiate", "lower", "fuse", "emit", "build", "backend", "assemble", "guard")

def times_text(report: CompileReport) -> str:
    """Calls are those of the function's start; what went on after a break has calls of its own, and is compiled apart."""
    stages = in_flow(stage for f in report.functions for entry in f.entries for stage in entry.seconds)
    head = ("function", "compiled", "calls", "seconds", *stages)
    rows = [head, *(_row(function, stages) for function in report.functions)]
    if len(rows) == 1:
        return "Nothing was compiled."
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["   ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]) for row in rows]
    return "\n".join([*lines, *_reuse(report)])


def compile_times(report: CompileReport, aggregate: bool = False) -> dict[str, list[float]]:
    """Seconds by stage, one number a compilation, or their sum: what `torch._dynamo.utils.compile_times()` is about."""
    entries = [entry for function in report.functions for entry in function.entries]
    found = {stage: [e.seconds[stage] for e in entries if stage in e.seconds] for stage in in_flow(s for e in entries for s in e.seconds)}
    return {stage: [sum(seconds)] if aggregate else seconds for stage, seconds in found.items()}


def in_flow(stages: Iterable[str]) -> list[str]:
    """Each once, in the order in which a compilation passes them: one that has no graph leaves some out."""
    found = set(stages)
    return [stage for stage in FLOW if stage in found] + sorted(found.difference(FLOW))


def _row(function: FunctionFact, stages: list[str]) -> tuple[str, ...]:
    seconds = [sum(entry.seconds.get(stage, 0.0) for entry in function.entries) for stage in stages]
    calls = sum(entry.calls for entry in function.entries if entry.region == "function")
    return function.name, f"{len(function.entries)}", f"{calls}", f"{sum(seconds):.3f}", *(f"{each:.3f}" for each in seconds)


def _reuse(report: CompileReport) -> list[str]:
    entries = [entry for function in report.functions for entry in function.entries if entry.status == "compiled"]
    calls = sum(entry.calls for entry in entries)
    once = sum(entry.calls <= 1 for entry in entries)
    return [f"{calls} calls were served by {len(entries)} compilations; {once} of these served one call only."]
