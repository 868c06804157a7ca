"""The report for a terminal: the program's source with what became of each line, then a summary.

    12 | def step(x, w):                          step: 2 graphs, 1 break, 3 kernels
    13 |     y = torch.relu(x @ w)                g0: mm (library), k0 | y f32[8, 64]
    14 |     if y.sum() > 0:                      g0: k1
       |        ^^^^^^^^^^^ break [data-dependent-branch] ...

Lines are made as (text, style) pieces; rich paints them where it is installed, otherwise they are plain.
"""

from __future__ import annotations

import linecache
import os
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact
from dynascope.report.lines import LineFacts, files_of, function_totals, line_facts, ranked, shown_reason
from dynascope.report.reason import Explanation
from dynascope.report.span import UserStack

Piece = tuple[str, str]
Line = list[Piece]

SOURCE_WIDTH = 64
TEXT_WIDTH = 116
GUTTER = "     | "
GUARDS_SHOWN = 3
FRAMES_SHOWN = 8
LABELS = {"error": "error", "warning": "break", "information": "note", "hint": "note"}
SEVERITY_STYLE = {"error": "bold red", "warning": "yellow", "information": "cyan", "hint": "dim"}


def print_report(report: CompileReport, stream: TextIO, path: Path | None) -> None:
    """Print the annotated source and the summary; `path` is where the report lies, if it is to be kept."""
    lines = report_lines(report, path)
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        stream.write("".join(plain(line) + "\n" for line in lines))
        return
    console = Console(file=stream, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*((text, style) for text, style in line)))


def report_text(report: CompileReport) -> str:
    return "\n".join(plain(line) for line in report_lines(report, None))


def plain(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def report_lines(report: CompileReport, path: Path | None) -> list[Line]:
    lines: list[Line] = []
    for file in files_of(report):
        lines += annotated_file(report, file)
    lines += _notes(report)
    return lines + _summary(report, path)


def annotated_file(report: CompileReport, file: str) -> list[Line]:
    """The file with its facts; of a file other than the program, only the functions that were compiled."""
    facts = line_facts(report, file)
    source = linecache.getlines(file)
    shown = range(1, len(source) + 1) if file == report.program.file else _compiled_lines(report, file)
    lines: list[Line] = [[("", "")], [(f"---- {_short(file)} ", "bold"), ("-" * max(4, 90 - len(file)), "dim")]]
    previous = 0
    for number in shown:
        if number != previous + 1 and previous:
            lines.append([(GUTTER + "...", "dim")])
        previous = number
        text = source[number - 1].rstrip("\n") if number <= len(source) else ""
        lines += _annotated_line(number, text, facts.get(number), report)
    return lines


def _compiled_lines(report: CompileReport, file: str) -> list[int]:
    place = os.path.abspath(file)
    numbers: set[int] = set()
    for function in report.functions:
        if os.path.abspath(function.span.file) == place:
            numbers.update(range(function.span.line, function.span.last_line + 1))
    return sorted(numbers)


def _annotated_line(number: int, text: str, facts: LineFacts | None, report: CompileReport) -> list[Line]:
    start: Line = [(f"{number:4} | ", "dim"), (text, "")]
    if facts is None:
        return [start]
    headline = _headline(facts, report)
    if headline:
        start.append((" " * max(2, SOURCE_WIDTH - len(text)), ""))
        start += headline
    lines = [start]
    lines += _guards(facts)
    for explanation in facts.recompilations:
        lines += _explained("compiled again", explanation, text)
    for explanation in facts.reasons:
        lines += _explained(LABELS[explanation.severity], explanation, text)
    return lines


def _guards(facts: LineFacts) -> list[Line]:
    """The first few; the rest is in the report, and `dynascope show guards` prints all of them."""
    shown = ranked(facts.guards)[:GUARDS_SHOWN]
    lines = [[(GUTTER, "dim"), (f"  guard: {guard.check}", "dim")] for guard in shown]
    if len(facts.guards) > len(shown):
        lines.append([(GUTTER, "dim"), (f"  and {counted(len(facts.guards) - len(shown), 'more guard')}", "dim")])
    return lines


def _headline(facts: LineFacts, report: CompileReport) -> Line:
    """`g0: addmm (library), k0, k1, backward k4 | gelu f32[32, 256]`"""
    parts: Line = [(_totals(report, function), "bold green") for function in facts.functions]
    went = [f"{name} (library)" for name in facts.externs] + _kernel_names(facts, report)
    if facts.graphs:
        graphs = " ".join(facts.graphs)
        parts.append((f"{graphs}: {', '.join(went)}" if went else graphs, "green"))
    if facts.values:
        named = [f"{value.name} {value.description}" for value in facts.values[-2:]]
        parts.append((f" | {'; '.join(dict.fromkeys(named))}", "cyan"))
    return parts


def _kernel_names(facts: LineFacts, report: CompileReport) -> list[str]:
    phases = {kernel.identifier: kernel.phase for kernel in report.kernels}
    backward = [name for name in facts.kernels if phases[name] == "backward"]
    names = [name for name in facts.kernels if phases[name] == "forward"]
    return names + ([f"backward {' '.join(backward)}"] if backward else [])


def _totals(report: CompileReport, function: FunctionFact) -> str:
    graphs, breaks, kernels = function_totals(report, function)
    counts = [counted(graphs, "graph"), counted(breaks, "break"), counted(len(kernels), "kernel")]
    return f"{function.name}: {', '.join(counts)}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _explained(what: str, explanation: Explanation, source: str) -> list[Line]:
    style = SEVERITY_STYLE[explanation.severity]
    indent = GUTTER
    span = explanation.span
    lines: list[Line] = []
    if span is not None and span.column is not None and span.last_line == span.line and span.end_column:
        before = len(source.encode()[: span.column].decode(errors="replace"))
        width = len(source.encode()[span.column : span.end_column].decode(errors="replace"))
        lines.append([(GUTTER, "dim"), (" " * before + "^" * max(1, width), style)])
    lines += _wrapped(indent, f"{what} [{explanation.code}] {explanation.message}", style)
    lines += _wrapped(indent + "  ", f"remedy: {explanation.remedy}", "")
    if len(explanation.stack) > 1:
        lines += _wrapped(indent + "  ", f"stack: {_callers(explanation.stack)}", "dim")
    return lines


def _callers(stack: UserStack) -> str:
    """Innermost first; of a deep recursion both ends."""
    frames = [f"{frame.function} ({_short(frame.span.file)}:{frame.span.line})" for frame in reversed(stack)]
    if len(frames) > FRAMES_SHOWN:
        half = FRAMES_SHOWN // 2
        frames[half:-half] = [f"{len(frames) - FRAMES_SHOWN} more"]
    return " <- ".join(frames)


def _wrapped(indent: str, text: str, style: str) -> list[Line]:
    pieces = [part for line in text.splitlines() for part in textwrap.wrap(line, TEXT_WIDTH) or [""]]
    return [[(indent, "dim"), (piece, style)] for piece in pieces]


def _notes(report: CompileReport) -> list[Line]:
    """What concerns no line: a missing compiler, an unusable cache, reasons in files that are not shown."""
    lines: list[Line] = []
    shown = {os.path.abspath(file) for file in files_of(report)}
    reasons = (shown_reason(report, entry) for entry in _entries(report))
    elsewhere = [
        reason
        for reason in reasons
        if reason is not None and (reason.span is None or os.path.abspath(reason.span.file) not in shown)
    ]
    graph_notes = [note for graph in report.graphs for note in graph.notes]
    for note in dict.fromkeys((*report.notes, *graph_notes, *elsewhere)):
        place = f" ({note.span})" if note.span else ""
        lines += _wrapped("", f"{note.severity} [{note.code}]{place} {note.message}", SEVERITY_STYLE[note.severity])
        lines += _wrapped("  ", f"remedy: {note.remedy}", "")
    return [[("", "")], *lines] if lines else []


def _entries(report: CompileReport) -> Iterable[EntryFact]:
    return (entry for function in report.functions for entry in function.entries)


def _summary(report: CompileReport, path: Path | None) -> list[Line]:
    entries = list(_entries(report))
    breaks = {(e.reason.code, e.reason.span) for e in entries if e.exit == "break" and e.reason is not None}
    guards = sum(len(entry.guards) for entry in entries)
    recompiled = sum(entry.recompiled is not None for entry in entries)
    uncompiled = sum(entry.status == "uncompiled" for entry in entries)
    counts = [
        counted(len(report.graphs), "graph"),
        counted(len(breaks), "break"),
        counted(len(report.kernels), "kernel"),
        counted(guards, "guard"),
        counted(recompiled, "recompilation"),
    ]
    if uncompiled:
        counts.append(f"{uncompiled} not compiled")
    lines: list[Line] = [[("", "")], [("Summary  ", "bold"), (", ".join(counts), "")]]
    seconds = _seconds_by_stage(entries)
    if seconds:
        stages = ", ".join(f"{stage} {value * 1e3:.0f} ms" for stage, value in seconds.items() if value >= 0.0005)
        lines.append([("Compiled ", "bold"), (f"in {sum(seconds.values()):.2f} s: {stages}", "")])
    if path is not None:
        lines.append([("Report   ", "bold"), (str(path), "")])
        folders = sorted({os.path.dirname(kernel.path) for kernel in report.kernels if kernel.path})
        lines += [[("Kernels  ", "bold"), (folder, "")] for folder in folders]
    return lines


def _seconds_by_stage(entries: list[EntryFact]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for entry in entries:
        for stage, seconds in entry.seconds.items():
            totals[stage] = totals.get(stage, 0.0) + seconds
    return totals


def _short(file: str) -> str:
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
