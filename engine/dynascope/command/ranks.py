"""Programs of several processes: one report for all ranks of a host, with what one of them alone has said of it.

    torchrun --nproc-per-node 2 -m dynascope run train.py      each rank has a parent; the host's first one prints for all
    RANK=1 WORLD_SIZE=2 ... python -m dynascope run train.py   as these, started one by one
    dynascope run train.py                                     that starts ranks itself: they write reports beside its own
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dynascope.command.reasons import RanksDiffer, RanksStartedAgain
from dynascope.native.cache import cache_folder
from dynascope.report.facts import CompileReport, FunctionFact
from dynascope.report.findings import function_line
from dynascope.report.reason import Explanation
from dynascope.report.span import Span
from dynascope.report.store import ReportUnreadable, read_report, write_report

PATIENCE = 60.0
"""Seconds that the first rank waits for the reports of the others, once its own program is over."""
ERRORS_OF_COLLECTIVES = frozenset({"RuntimeError", "DistError", "DistBackendError", "DistNetworkError", "DistStoreError"})


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
    groups = _started_together([each for each in _readable(children_folder(path)) if each.functions])
    if not groups:
        return report
    differences = (*(difference for group in groups for difference in differences_of(group)), *_not_shown(groups))
    if report.functions:
        return replace(report, notes=(*report.notes, *differences))
    first = groups[0][0]
    notes = tuple(dict.fromkeys((*report.notes, *first.notes, *differences)))
    return replace(first, program=report.program, notes=notes)


def _not_shown(groups: Sequence[list[CompileReport]]) -> Iterator[Explanation]:
    """What the first rank of a later start compiled, and that of the first start did not."""
    first, *later = [group[0] for group in groups]
    known = set(map(_place, first.functions))
    names = dict.fromkeys(function.name for report in later for function in report.functions if _place(function) not in known)
    if names:
        yield RanksStartedAgain(len(groups), tuple(names)).explain()


def _started_together(reports: Sequence[CompileReport]) -> list[list[CompileReport]]:
    """By rank, and those that have none last. A program that starts ranks again and again has each rank once in each group: they are in
    the order of their starts."""
    groups: list[list[CompileReport]] = []
    met: Counter[int | None] = Counter()
    for report in reports:
        rank = report.program.rank
        number = met[rank] if rank is not None else 0
        met[rank] += 1
        groups += [[] for _ in range(number + 1 - len(groups))]
        groups[number].append(report)
    by_rank = lambda each: (each.program.rank is None, each.program.rank or 0)  # noqa: E731
    return [sorted(group, key=by_rank) for group in groups]


def _readable(folder: Path) -> Iterator[CompileReport]:
    for path in sorted(folder.glob("*.json")):
        report = _readable_at(path)
        if report is not None:
            yield report


def _readable_at(path: Path) -> CompileReport | None:
    try:
        return read_report(path)
    except (OSError, ReportUnreadable):
        return None


class Ranks:
    """The ranks of this host that somebody started, each with a parent of its own: a launcher such as torchrun, which says how many there
    are, or a person or script. Of the latter only those count that have begun."""

    def __init__(self, folder: Path, rank: int, count: int, known_count: bool = True) -> None:
        self.folder, self.rank, self.count, self.known_count = folder, rank, count, known_count

    @classmethod
    def here(cls) -> Ranks | None:
        numbers = _numbers("LOCAL_RANK", "LOCAL_WORLD_SIZE")
        if numbers is not None:
            names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "GROUP_RANK")
            # The launcher is the parent of every rank: another run of it is another process.
            return cls(_meeting_place(*map(os.environ.get, names), os.getppid()), *numbers)
        numbers = _numbers("RANK", "WORLD_SIZE")
        address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
        if numbers is None or not (address and port):
            return None
        ranks = cls(_meeting_place(address, port), *numbers, known_count=False)
        ranks.begin()
        return ranks

    def begin(self) -> None:
        """Before the program runs: what an earlier run that was killed has left of this rank is gone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for kind in ("json", "done"):
            self._file(self.rank, kind).unlink(missing_ok=True)
        self._file(self.rank, "begun").write_text(str(os.getpid()), encoding="ascii")

    def hand_in(self, report: CompileReport | None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if report is not None:
            write_report(report, self._file(self.rank, "json"))
        self._file(self.rank, "done").touch()

    def prints_for_all(self) -> bool:
        """Whether this is the first rank of the host."""
        return not any(self.known_count or self._runs(rank) for rank in range(self.rank))

    def together(self, own: CompileReport) -> CompileReport:
        """The first rank's report with how the others differ; those that end without a word are named."""
        deadline = time.monotonic() + PATIENCE
        others = [rank for rank in range(self.rank + 1, self.count) if self.known_count or self._runs(rank)]
        while time.monotonic() < deadline and not all(map(self._is_over, others)):
            time.sleep(0.05)
        reports = (_readable_at(self._file(rank, "json")) for rank in others)
        found = [own, *(report for report in reports if report is not None)]
        found.sort(key=lambda each: each.program.rank or 0)
        shutil.rmtree(self.folder, ignore_errors=True)
        errors = _errors_of(found)
        if own.program.error is not None and errors:
            own = replace(own, program=replace(own.program, error=errors.pop(0)))
        return replace(own, notes=(*own.notes, *errors, *differences_of(found)))

    def _file(self, rank: int, kind: str) -> Path:
        return self.folder / f"{rank}.{kind}"

    def _is_over(self, rank: int) -> bool:
        return self._file(rank, "done").exists() or not (self.known_count or self._runs(rank))

    def _runs(self, rank: int) -> bool:
        """Whether this rank has begun on this host and its process is still there, or has handed in its report."""
        try:
            os.kill(int(self._file(rank, "begun").read_text(encoding="ascii")), 0)
        except (OSError, ValueError):
            return self._file(rank, "done").exists()
        return True


def _numbers(rank: str, count: str) -> tuple[int, int] | None:
    """What these variables say, where there are several ranks."""
    given = os.environ.get(rank, ""), os.environ.get(count, "")
    return (int(given[0]), int(given[1])) if all(map(str.isdigit, given)) and int(given[1]) > 1 else None


def _meeting_place(*identity: object) -> Path:
    key = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    return cache_folder() / "ranks" / key


def _errors_of(reports: Sequence[CompileReport]) -> list[Explanation]:
    """That of who ended first before those of the others, which are often but what follows from it. What several raise is said once."""
    ended = [report.program for report in reports if report.program.error is not None]
    ended.sort(key=lambda program: math.inf if program.seconds is None else program.seconds)
    raised: dict[tuple[str, Span | None], tuple[Explanation, list[int]]] = {}
    for program in ended:
        assert program.error is not None
        key = program.error.message, program.error.span
        raised.setdefault(key, (program.error, []))[1].append(program.rank or 0)
    named = [(error, _named(ranks)) for error, ranks in raised.values()]
    return [_ended(error, who, "" if at == 0 else named[0][1].lower()) for at, (error, who) in enumerate(named)]


def _named(ranks: list[int]) -> str:
    numbers = list(map(str, sorted(ranks)))
    return f"Rank {numbers[0]}" if len(numbers) == 1 else f"Ranks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _ended(error: Explanation, who: str, first: str) -> Explanation:
    """`first` ended before; whose connection is closed gets one of these errors from its next collective."""
    if not first or error.message.partition(":")[0] not in ERRORS_OF_COLLECTIVES:
        return replace(error, message=f"{who} ended: {error.message}")
    words = error.message.partition("\n")[0]
    remedy = f"It came after {first} had ended, and collectives raise such errors when a rank is gone: look at that one first."
    return replace(error, severity="note", message=f"{who} ended after it: {words}", remedy=remedy)


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
                reason = RanksDiffer(function.name, ranks[0], _words(here), ranks[1], _words(there), _apart(here, there, ranks))
                yield reason.explain(function_line(function))


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


def _apart(here: FunctionFact | None, there: FunctionFact | None, ranks: tuple[int, int]) -> str:
    """One thing that a rank alone has said of the function: why it broke or was compiled again, else what it relies on."""
    if here is None or there is None:
        return ""
    for said in (_breaks, _causes, _guards):
        ours, theirs = Counter(said(here)), Counter(said(there))
        for rank, alone in zip(ranks, (ours - theirs, theirs - ours), strict=True):
            if alone:
                return f"Only on rank {rank}: {next(iter(alone))}"
    return ""


def _breaks(function: FunctionFact) -> Iterator[str]:
    return (entry.reason.message for entry in function.entries if entry.reason is not None)


def _causes(function: FunctionFact) -> Iterator[str]:
    return (f"{entry.recompiled.message}." for entry in function.entries if entry.recompiled is not None)


def _guards(function: FunctionFact) -> Iterator[str]:
    return (f"{guard.check}." for entry in function.entries for guard in entry.guards)


def _words(function: FunctionFact | None) -> str:
    if function is None:
        return "did not compile it"
    graphs = sum(entry.graph is not None for entry in function.entries)
    breaks = sum(entry.exit == "break" for entry in function.entries)
    again = sum(entry.recompiled is not None for entry in function.entries)
    counts = [(graphs, "graph"), (breaks, "break"), (again, "recompilation")]
    return "has " + ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
