"""What a profiled run cost, by kernel and by line.

costs(report)[0]           Cost("k1 mul_kernel", "forward", spans, calls=30, seconds=0.0021, share=0.4, bandwidth=0.71)
line_costs(report)         {("model.py", 16): 0.0034, ...}: seconds of the run
measured_seconds(report, ["g0"])      0.0061: of the run, in those graphs
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dynascope.dataclass import dataclass
from dynascope.report.facts import BesideEager, CompileReport, CostFact, KernelFact, Phase
from dynascope.report.lines import short_operation
from dynascope.report.span import Span
from dynascope.report.user_files import is_user_file

ROUNDED_UP = 0.9995


@dataclass(frozen=True, slots=True)
class Cost:
    """`share` is of all that was measured; `bandwidth` of what the machine can move, None where it is not known."""

    name: str
    phase: Phase
    spans: tuple[Span, ...]
    calls: int
    seconds: float
    share: float
    bandwidth: float | None = None


def costs(report: CompileReport) -> list[Cost]:
    """The dearest first."""
    found = [*_of_kernels(report), *_of_externs(report)]
    total = sum(cost.seconds for _, cost, _, _, _ in found) or 1.0
    made = [
        Cost(name, phase, spans, cost.calls, cost.seconds, cost.seconds / total, bandwidth)
        for name, cost, phase, spans, bandwidth in found
    ]
    return sorted(made, key=lambda cost: -cost.seconds)


def line_costs(report: CompileReport) -> dict[tuple[str, int], float]:
    """What computes for several lines counts for each in equal parts; a line that only built a layer costs nothing."""
    built = _lines_that_build(report)
    found: dict[tuple[str, int], float] = defaultdict(float)
    for cost in costs(report):
        places = {(span.file, span.line) for span in cost.spans if is_user_file(span.file)}
        places = places - built or places
        for place in places:
            found[place] += cost.seconds / len(places)
    return dict(found)


def _lines_that_build(report: CompileReport) -> set[tuple[str, int]]:
    stacks = (value.stack for graph in report.graphs for value in graph.values)
    spans = (frame.layer.built for stack in stacks for frame in stack if frame.layer is not None)
    return {(span.file, span.line) for span in spans if span is not None}


def measured_seconds(report: CompileReport, graphs: Iterable[str | None]) -> float | None:
    """Of the run, in the kernels and library calls of some graphs; None where nothing of them was measured."""
    wanted = set(graphs)
    found = [kernel.cost for kernel in report.kernels if kernel.graph in wanted]
    found += [extern.cost for graph in report.graphs if graph.identifier in wanted for extern in graph.externs]
    known = [cost.seconds for cost in found if cost is not None]
    return sum(known) if known else None


def beside_eager(report: CompileReport, graphs: Iterable[str | None]) -> BesideEager | None:
    """Of some graphs together; None where one of them was not measured."""
    wanted = set(graphs)
    found = [graph.beside_eager for graph in report.graphs if graph.identifier in wanted]
    if not found or None in found:
        return None
    known = [each for each in found if each is not None]
    return BesideEager(sum(each.compiled for each in known), sum(each.eager for each in known))


def bandwidth_share(report: CompileReport, kernel: KernelFact) -> float | None:
    """More than 1 where what it reads lies in a cache."""
    if kernel.cost is None or not kernel.cost.calls or not kernel.cost.seconds or not report.environment.bandwidth:
        return None
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    return moved * kernel.cost.calls / kernel.cost.seconds / report.environment.bandwidth


def duration(seconds: float) -> str:
    """ "2.1 ms"; what three digits round up to a thousand is one of the next unit. """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * ROUNDED_UP:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _of_kernels(report: CompileReport) -> Iterator[tuple[str, CostFact, Phase, tuple[Span, ...], float | None]]:
    for kernel in report.kernels:
        if kernel.cost is not None:
            name = f"{kernel.identifier} {kernel.name}"
            yield name, kernel.cost, kernel.phase, kernel.spans, bandwidth_share(report, kernel)


def _of_externs(report: CompileReport) -> Iterator[tuple[str, CostFact, Phase, tuple[Span, ...], None]]:
    for graph in report.graphs:
        for extern in graph.externs:
            if extern.cost is not None:
                yield f"{short_operation(extern.operation)} (library)", extern.cost, extern.phase, extern.spans, None
