"""Programs of several processes: one report for all ranks of a host, with what one of them alone has said of it.

    torchrun --nproc-per-node 2 -m dynascope run train.py      each rank has a parent; the host's first one prints for all
    dynascope run train.py                                     that starts ranks itself: they write reports beside its own
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dynascope.command.reasons import RanksDiffer
from dynascope.report.facts import CompileReport, FunctionFact
from dynascope.report.reason import Explanation
from dynascope.report.store import ReportUnreadable, read_report, write_report

PATIENCE = 60.0
"""Seconds that the first rank waits for the reports of the others, once its own program is over."""


def children_folder(report: Path) -> Path:
    """Where the processes that a program spawns write their reports."""
    return report.with_suffix(".ranks")


def gather(path: Path) -> None:
    """The program's report there becomes that of all its processes. Nothing where there is none, or it started none that compile."""
    try:
        report = read_report(path)
        together = with_children(report, path)
        if together is not report:
            write_report(together, path)
    except (OSError, ReportUnreadable):
        return


def with_children(report: CompileReport, path: Path) -> CompileReport:
    """The program's report with those of its children. Where it compiled nothing itself, that of its first rank."""
    found = sorted(_readable(children_folder(path)), key=lambda each: (each.program.rank is None, each.program.rank or 0))
    compiled = [each for each in found if each.functions]
    if not compiled:
        return report
    differences = tuple(differences_of(compiled))
    if report.functions:
        return replace(report, notes=(*report.notes, *differences))
    first = compiled[0]
    notes = tuple(dict.fromkeys((*report.notes, *first.notes, *differences)))
    return replace(first, program=report.program, notes=notes)


def _readable(folder: Path) -> Iterator[CompileReport]:
    for path in folder.glob("*.json"):
        try:
            yield read_report(path)
        except (OSError, ReportUnreadable):
            continue


class Ranks:
    """The ranks of this host that a launcher such as torchrun started, each with a parent of its own."""

    def __init__(self, folder: Path, rank: int, count: int) -> None:
        self.folder, self.rank, self.count = folder, rank, count

    @classmethod
    def here(cls) -> Ranks | None:
        from dynascope.native.cache import cache_folder

        local, count = os.environ.get("LOCAL_RANK", ""), os.environ.get("LOCAL_WORLD_SIZE", "")
        if not (local.isdigit() and count.isdigit() and int(count) > 1):
            return None
        names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "GROUP_RANK")
        # The launcher is the parent of every rank: another run of it is another process.
        identity = repr(([os.environ.get(name) for name in names], os.getppid()))
        key = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return cls(cache_folder() / "ranks" / key, int(local), int(count))

    def hand_in(self, report: CompileReport | None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if report is not None:
            write_report(report, self.folder / f"{self.rank}.json")
        (self.folder / f"{self.rank}.done").touch()

    def together(self, own: CompileReport) -> CompileReport:
        """The first rank's report with how the others differ; those that end without a word are named."""
        deadline = time.monotonic() + PATIENCE
        others = range(1, self.count)
        while time.monotonic() < deadline and not all((self.folder / f"{rank}.done").exists() for rank in others):
            time.sleep(0.05)
        found = [own, *(each for each in _readable(self.folder) if each.program.rank not in (None, own.program.rank))]
        found.sort(key=lambda each: each.program.rank or 0)
        shutil.rmtree(self.folder, ignore_errors=True)
        return replace(own, notes=(*own.notes, *differences_of(found)))


def differences_of(reports: Sequence[CompileReport]) -> Iterator[Explanation]:
    """What a rank has otherwise than the first: other graphs, breaks or recompilations of a function, or none at all."""
    first = reports[0]
    known = {_place(function): function for function in first.functions}
    for report in reports[1:]:
        own = {_place(function): function for function in report.functions}
        for place in dict.fromkeys((*known, *own)):
            here, there = known.get(place), own.get(place)
            if _shape(first, here) != _shape(report, there):
                function = here or there
                assert function is not None
                ranks = (first.program.rank or 0, report.program.rank or 0)
                reason = RanksDiffer(function.name, ranks[0], _words(here), ranks[1], _words(there))
                yield reason.explain(function.span)


def _place(function: FunctionFact) -> tuple[str, str, int]:
    return function.name, function.span.file, function.span.line


def _shape(report: CompileReport, function: FunctionFact | None) -> Counter:
    """How a function was compiled, without what differs between any two processes."""
    operations = {graph.identifier: graph.operations for graph in report.graphs}
    entries = function.entries if function is not None else ()
    return Counter(
        (
            entry.region,
            entry.span.line,
            entry.exit,
            operations.get(entry.graph or ""),
            entry.reason.code if entry.reason else "",
            len(entry.guards),
        )
        for entry in entries
    )


def _words(function: FunctionFact | None) -> str:
    if function is None:
        return "did not compile it"
    graphs = sum(entry.graph is not None for entry in function.entries)
    breaks = sum(entry.exit == "break" for entry in function.entries)
    again = sum(entry.recompiled is not None for entry in function.entries)
    counts = [(graphs, "graph"), (breaks, "break"), (again, "recompilation")]
    return "has " + ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
