"""`dynascope compare FILE --backends a,b,c`: the program under each backend, in a process of its own, beside eager.

backend     results   first call   warm call   memory   graphs   breaks   kernels
dynascope   equal         0.41 s      1.2 ms   310 MB        1        0         4

`dynascope backends`: every backend with its state, and what installs it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dynascope.backends import KNOWN, UnknownBackend, backend_states, find_backend
from dynascope.command.named_program import USAGE, cannot_be_run
from dynascope.command.ranks import children_folder
from dynascope.command.run import can_be_written, execute_apart
from dynascope.dataclass import dataclass
from dynascope.report.facts import CompileReport
from dynascope.report.findings import findings
from dynascope.report.printed import same_words, without_numbers
from dynascope.report.store import ReportUnreadable, read_report
from dynascope.report.tables import table, width_of, wrapped
from dynascope.report.terminal import is_shown

DIFFERS = 1
HEAD = ("backend", "results", "first call", "warm call", "memory", "graphs", "breaks", "kernels")
EAGER = "eager"
MOST_IN_A_CELL = 15
FELL_BACK = "backend-failed"
UNKNOWN = "backend-unknown"


@dataclass(frozen=True)
class Comparison:
    """What one backend made of the program. Seconds are sums over its graphs, each with its backward pass."""

    backend: str
    results: str
    """`equal`, or how they differ, or why there are none."""
    is_equal: bool
    first_call: float | None = None
    """Seconds: capture, what the backend does, and the first run."""
    warm_call: float | None = None
    eager_call: float | None = None
    peak_bytes: int | None = None
    graphs: int = 0
    breaks: int = 0
    kernels: int | None = None
    same_output: bool | None = None
    """Whether the program prints what it prints under `eager`."""
    other_numbers: bool = False
    """Only numbers are others in what it prints: results, or times that differ in every run."""

    @property
    def told_otherwise(self) -> str:
        return "" if self.same_output is not False else "other numbers" if self.other_numbers else "other words"


def backends(options: argparse.Namespace) -> int:
    rows = backend_states()
    if options.json:
        print(json.dumps([{**asdict(known), "state": state} for known, state in rows], indent=1))
        return 0
    width = max(len(known.name) for known, _ in rows)
    for known, state in rows:
        words = f"{known.words}; {known.sizes} sizes" if known.sizes == "fixed" else known.words
        print(f"{known.name:<{width}}  {words}\n{'':<{width}}  {state}")
    return 0


def compare(options: argparse.Namespace) -> int:
    """0 where every backend gives eager's results, 1 where one does not."""
    if cannot_be_run(options.file, "compare FILE [ARGS]"):
        return USAGE
    if not can_be_written(options.json):
        return USAGE
    names = list(dict.fromkeys([EAGER, *filter(None, (name.strip() for name in options.backends.split(",")))]))
    unknown = [words for name in names[1:] for words in _unknown(name, options.file)]
    if unknown:
        print(*(f"dynascope: {words}" for words in unknown), sep="\n", file=sys.stderr)
        return USAGE
    found, printed, start = [], None, _place_in_input()
    for name in names:
        if start is not None:
            os.lseek(0, start, os.SEEK_SET)  # each run reads the same
        comparison, output = _run_under(name, options, printed)
        printed = output if name == EAGER else printed
        found.append(comparison)
    text = json.dumps([asdict(each) for each in found], indent=1)
    if options.json:
        Path(options.json).write_text(text, encoding="utf-8")
    written = {"json": lambda: text, "text": lambda: comparison_text(found, width_of(sys.stdout))}
    written["markdown"] = lambda: comparison_page(options.file, found)
    print(written[options.output_format]())
    return 0 if all(each.is_equal for each in found) else DIFFERS


def compare_captures(options: argparse.Namespace) -> int:
    """`dynascope compare-captures FILE::FUNCTION`: in a process of its own, which compiles nothing before."""
    file, _, function = options.target.partition("::")
    if cannot_be_run(file, "compare-captures FILE::FUNCTION"):
        return USAGE
    if not function:
        print("dynascope: compare-captures takes FILE::FUNCTION; there is no function", file=sys.stderr)
        return USAGE
    form = [options.output_format, str(width_of(sys.stdout))]
    command = [sys.executable, "-m", "dynascope.captures", *form, function, file, *options.arguments]
    try:
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        print(f"dynascope: not finished after {options.timeout:g} s", file=sys.stderr)
        return DIFFERS
    print(done.stdout, end="")
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
    return done.returncode


def _unknown(name: str, file: str) -> list[str]:
    """That no backend has the name, before anything runs. The program, or a module beside it, may register one of its own: there the name
    stands in the text."""
    if any(known.name == name for known in KNOWN) or any(name in _text(each) for each in Path(file).resolve().parent.glob("*.py")):
        return []
    try:
        find_backend(name)
    except UnknownBackend as error:
        return [str(error)]
    return []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _place_in_input() -> int | None:
    """Of standard input, where it is a file."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        return None


def _run_under(name: str, options: argparse.Namespace, expected: str | None) -> tuple[Comparison, str]:
    known = next((known for known in KNOWN if known.name == name), None)
    if known is not None and known.state() != "ready":
        return Comparison(name, known.state(), False), ""
    options.backend, options.compare, options.events_fd = name, True, None
    with tempfile.TemporaryDirectory(prefix="dynascope-compare-") as folder:
        path = Path(folder) / "report.json"
        try:
            done = execute_apart(options, path, text=True, capture_output=True)
        except subprocess.TimeoutExpired:
            return Comparison(name, f"not finished after {options.timeout:g} s", False), ""
        try:
            report = read_report(path)
        except (FileNotFoundError, ReportUnreadable) as error:
            return Comparison(name, f"no report: {error}", False), done.stdout
        has_ranks = any(children_folder(path).glob("*.json"))
    same = None if expected is None else same_words(done.stdout, expected, in_any_order=has_ranks)
    numbers = same is False and same_words(*map(without_numbers, (done.stdout, expected or "")), in_any_order=has_ranks)
    return replace(_judged(name, report, done, same), other_numbers=numbers), done.stdout


def _judged(name: str, report: CompileReport, done: subprocess.CompletedProcess, same: bool | None) -> Comparison:
    entries = [entry for function in report.functions for entry in function.entries]
    measured = [graph.beside_eager for graph in report.graphs if graph.beside_eager is not None]
    words, is_equal = _results(report, measured, done)
    facts: dict[str, Any] = {
        "peak_bytes": report.program.peak_bytes,
        "graphs": len(report.graphs),
        "breaks": sum(finding.kind == "break" and is_shown(finding) for finding in findings(report)),
        "kernels": len(report.kernels) if name == "dynascope" else max((m.kernels or 0 for m in measured), default=0) or None,
        # A program that ended early printed less, whatever is right.
        "same_output": same if done.returncode == 0 else None,
    }
    ran = [each for each in measured if not each.failure]
    if ran:
        compiling = sum(entry.seconds.get(stage, 0.0) for entry in entries for stage in entry.seconds)
        facts["first_call"] = compiling + sum(each.first or 0.0 for each in ran)
        facts["warm_call"] = sum(each.compiled for each in ran)
        facts["eager_call"] = sum(each.eager for each in ran)
    return Comparison(name, words, is_equal, **facts)


def _results(report: CompileReport, measured: list, done: subprocess.CompletedProcess) -> tuple[str, bool]:
    if done.returncode:
        last = "".join(f": {line}" for line in done.stderr.strip().splitlines()[-1:])
        return f"the program ended with {done.returncode}{last}", False
    fell_back = [note for graph in report.graphs for note in graph.notes if note.code == FELL_BACK]
    if fell_back:
        return f"ran operator by operator: {fell_back[0].message}", False
    failure = next((each.failure for each in measured if each.failure), "")
    if failure:
        return f"not compared: {failure}", False
    if not measured:
        why = next((note.message for note in report.notes if note.code == UNKNOWN), "nothing was compiled")
        return why, False
    worst = max(each.difference or 0.0 for each in measured)
    if worst <= 1:
        return "equal", True
    return ("differ in type, size or kind" if worst == float("inf") else f"differ, {worst:.0f} times what rounding may"), False


def comparison_text(found: list[Comparison], width: int = 0) -> str:
    """`width` of the terminal; 0: as wide as it is. What does not fit into a cell stands below the table."""
    long = [each for each in found if len(each.results) > MOST_IN_A_CELL]
    rows = [(*row[:1], "see below" if each in long else row[1], *row[2:]) for each in found for row in [_row(each)]]
    lines = []
    for told, each in zip(table([HEAD, *rows], width, range(2, len(HEAD))), [None, *found], strict=True):
        lines += told
        if each is not None and each.told_otherwise:
            lines += wrapped(f"  the program prints {each.told_otherwise} than under eager", width)
    for each in long:
        lines += wrapped(f"{each.backend}: {each.results}", width)
    return "\n".join(lines)


def comparison_page(file: str, found: list[Comparison]) -> str:
    """Markdown, for an editor."""
    lines = [f"# {Path(file).name} under {len(found)} backends", "", f"| {' | '.join(HEAD)} |", "| --- " * len(HEAD) + "|"]
    for each in found:
        cells = [re.sub(r"(?<=\d) (?=\w+$)", "\N{NO-BREAK SPACE}", cell) for cell in _row(each)]
        lines.append(f"| {' | '.join(cells)} |".replace("\n", " "))
    for told in dict.fromkeys(each.told_otherwise for each in found if each.told_otherwise):
        others = " and ".join(f"`{each.backend}`" for each in found if each.told_otherwise == told)
        lines += ["", f"Under {others} the program prints {told} than under eager."]
    lines += ["", "Seconds and times are sums over the graphs, a call with its backward pass. Results are equal up to rounding."]
    return "\n".join(lines)


def _row(each: Comparison) -> tuple[str, ...]:
    return (
        each.backend,
        each.results,
        "" if each.first_call is None else f"{each.first_call:.2f} s",
        "" if each.warm_call is None else f"{each.warm_call * 1000:.2f} ms",
        "" if each.peak_bytes is None else f"{each.peak_bytes / 2**20:.0f} MB",
        f"{each.graphs}",
        f"{each.breaks}",
        "" if each.kernels is None else f"{each.kernels}",
    )
