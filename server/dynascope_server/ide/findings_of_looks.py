"""What a run that looked at more than breaks has found: each line beside float64, what each line costs.

found_out(report)                        "8 values and 7 gradients compared, none differs"
run_cost(report, ["g0", "g1"])           "6.1 ms (40%)", of the run
function_cost(report, ["g0", "g1"])      "2.1 ms → 0.6 ms", of a call
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dynascope.report.costs import bandwidth_share, beside_eager, costs, duration, measured_seconds
from dynascope.report.facts import CheckFact, CompileReport, KernelFact

from dynascope_server.ide.numbers import count

COSTS_SHOWN = 12


def found_out(report: CompileReport) -> str:
    """Empty where the run looked at nothing more."""
    if not report.checks:
        return ""
    gradients = sum(fact.kind == "gradient" for fact in report.checks)
    differing = sum(fact.differs for fact in report.checks)
    found = f"{differing} of them differing" if differing else "none differs"
    return f"{count(len(report.checks) - gradients, 'value')} and {count(gradients, 'gradient')} compared, {found}"


def run_cost(report: CompileReport, graphs: Iterable[str | None]) -> str:
    """ "6.1 ms (40%)": over the run, and the share of all that was measured. Empty where it was not."""
    seconds = measured_seconds(report, graphs)
    if seconds is None:
        return ""
    total = sum(cost.seconds for cost in costs(report)) or 1.0
    return f"{duration(seconds)} ({seconds / total:.0%})"


def function_cost(report: CompileReport, graphs: Iterable[str | None]) -> str:
    """Eager's time and that of compiled code; how much of the bandwidth its kernels have together, where they are measured."""
    wanted = [graph for graph in graphs if graph is not None]
    together = beside_eager(report, wanted)
    if together is None:
        return ""
    measured = [kernel for kernel in report.kernels if kernel.graph in wanted and kernel.cost is not None]
    shares = [
        (share, kernel.cost.seconds)
        for kernel in measured
        if kernel.cost and (share := bandwidth_share(report, kernel))
    ]
    taken = sum(seconds for _, seconds in shares)
    share = sum(share * seconds for share, seconds in shares) / taken if taken else 0.0
    used = f" · {share:.0%} of bandwidth" if 0.005 <= share <= 1 else ""
    return f"{duration(together.eager)} → {duration(together.compiled)}{used}"


def kernel_cost(report: CompileReport, kernel: KernelFact) -> str:
    """ "12 × 34 µs, 71% of bandwidth" """
    if kernel.cost is None or not kernel.cost.calls:
        return ""
    share = bandwidth_share(report, kernel)
    moved = "" if share is None else f", {share:.0%} of bandwidth" if share <= 1 else ", from the cache"
    return f"{kernel.cost.calls} × {duration(kernel.cost.seconds / kernel.cost.calls)}{moved}"


def check_words(fact: CheckFact) -> str:
    what = f"gradient of `{fact.name}`" if fact.kind == "gradient" else f"`{fact.name}`"
    mark = ", **differs**" if fact.differs else ""
    return f"{what}: eager {fact.eager:.1g}, compiled {fact.compiled:.1g} from float64{mark}"


def cost_rows(report: CompileReport) -> Iterator[tuple[str, tuple]]:
    """The dearest kernels and library calls, each with its places."""
    for cost in costs(report)[:COSTS_SHOWN]:
        each = duration(cost.seconds / cost.calls) if cost.calls else "0"
        yield (
            f"- {duration(cost.seconds)} ({cost.share:.0%}) `{cost.name}`, {cost.phase}, {cost.calls} × {each}",
            cost.spans,
        )
