"""The report for a terminal: what matters, each thing at its place, then a summary.

    warning[data-dependent-branch]: `if y.sum() > 0` needs the value of a tensor, known only when the program runs.
      --> model.py:14:8
       |
    14 |     if y.sum() > 0:
       |        ^^^^^^^^^^^ the graph breaks here
       |
       = help: Write `y = torch.where(y.sum() > 0, y, -y)`: both sides are computed and one is chosen.

Lines are made as (text, style) pieces; rich paints them where it is installed, otherwise they are plain. The whole source with
what became of each line is in `annotated.py`.
"""

from __future__ import annotations

import linecache
import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from dynascope.dataclass import dataclass
from dynascope.report.facts import CompileReport, FunctionFact
from dynascope.report.findings import Finding, calm_findings, function_line
from dynascope.report.guard_rows import guard_rows
from dynascope.report.labels import fitted_labels
from dynascope.report.lines import breaks_of, function_totals
from dynascope.report.span import Span, UserStack
from dynascope.report.times import in_flow
from dynascope.report.user_files import LIBRARY_FOLDERS, is_user_file, same_file, shown_path
from dynascope.report.variants import entry_title, variants_of

Piece = tuple[str, str]
Line = list[Piece]

WIDTH = 100
"""Of a page that is no terminal."""
NARROWEST = 40
FRAMES_SHOWN = 6
INSIDE = ".<locals>."
FUNCTIONS_SHOWN = 12
VARIANTS_SHOWN = 4
STYLES = {"error": "bold red", "warning": "bold yellow", "information": "bold cyan", "hint": "dim"}
WORDS = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
SAYS = {
    "break": "the graph breaks here",
    "recompile": "decided here",
    "uncompiled": "runs uncompiled",
    "limit": "the latest case",
    "error": "raised here",
    "note": "",
}
NOT_WHOLE = "raises: fullgraph=True"
QUIET_KINDS = frozenset({"note", "break"})
"""Said with `--annotate` only, unless they are warnings: a loop that goes on after a break says nothing new."""


@dataclass(frozen=True)
class Page:
    """How the report is shown: `guards`, `annotate` and `notes` (which `annotate` adds too) add what is left out by default. `nothing` says
    why nothing was compiled where no whole program was run."""

    width: int = WIDTH
    guards: bool = False
    annotate: bool = False
    notes: bool = False
    nothing: str = ""


def columns_of(stream: TextIO, unknown: int) -> int:
    """Of the terminal, or what `COLUMNS` says of whoever reads the pipe; `unknown` where nobody does."""
    said = os.environ.get("COLUMNS", "")
    if not stream.isatty() and not (said.isdigit() and int(said)):
        return unknown
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)


def print_report(report: CompileReport, stream: TextIO, path: Path | None, guards=False, annotate=False) -> None:
    """Print the report, fitted to the terminal; `path` is where the report lies, if it is to be kept."""
    lines = report_lines(report, path, Page(columns_of(stream, WIDTH), guards, annotate))
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        stream.write("".join(plain(line) + "\n" for line in lines))
        return
    console = Console(file=stream, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*((text, style) for text, style in line)))


ORDINARY = Page()


def report_text(report: CompileReport, page: Page = ORDINARY) -> str:
    return "\n".join(plain(line) for line in report_lines(report, None, page))


def plain(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def report_lines(report: CompileReport, path: Path | None, page: Page = ORDINARY) -> list[Line]:
    lines: list[Line] = []
    found = calm_findings(report)
    if page.annotate:
        from dynascope.report.annotated import annotated_lines

        lines += annotated_lines(report, page.width)
    for finding in found:
        if page.annotate or page.notes or is_shown(finding):
            lines += [[("", "")], *finding_lines(finding, page.width)]
    if page.guards:
        lines += guard_lines(report, page.width)
    return lines + _summary(report, found, path, page)


def is_shown(finding: Finding) -> bool:
    if finding.severity in ("error", "warning"):
        return True
    return finding.kind not in QUIET_KINDS and not finding.is_expected


def finding_lines(finding: Finding, width: int) -> list[Line]:
    style = STYLES[finding.severity]
    title = f"{WORDS[finding.severity]}[{finding.code}]"
    first, *others = _wrap(f"{title}: {finding.message}", width)
    lines: list[Line] = [
        [(title, style), (first[len(title) :], "bold")],
        *([("  " + other, "bold")] for other in others),
    ]
    margin = len(str(finding.span.line)) if finding.span is not None else 1
    if finding.span is not None:
        lines += _quotation(finding, finding.span, margin, style, width)
    gutter = " " * margin + " = "
    rows = [("help: ", finding.remedy)] if finding.remedy else []
    callers = _callers(finding)
    rows += [("from: ", callers)] if callers else []
    for word, text in rows:
        lines += _hanging(gutter, word, text, width)
    return lines


def _quotation(finding: Finding, span: Span, margin: int, style: str, width: int) -> list[Line]:
    """`--> file:line:column`, the line, and carets under the expression."""
    source = linecache.getline(span.file, span.line).rstrip("\n")
    column = len(source.encode()[: span.column].decode(errors="replace")) if span.column is not None else None
    place = f"{_short(span.file)}:{span.line}" + (f":{column + 1}" if column is not None else "")
    lines: list[Line] = [[(" " * margin + "--> ", "blue"), (place, "")]]
    if not source.strip():
        return lines
    bar = " " * margin + " | "
    start, marked = _marked(span, source, column)
    shown, shift = _fitted(source.expandtabs(1), start, marked, width - len(bar))
    says = SAYS.get(finding.kind, "")
    if finding.raises:
        says = NOT_WHOLE
    if finding.kind == "recompile" and finding.times > 1:
        says = f"decided here, {finding.times} times"
    lines.append([(bar.rstrip(), "blue")])
    lines.append([(f"{span.line} | ", "blue"), (shown, "")])
    indent = " " * (start - shift)
    carets = min(marked, max(1, width - len(bar) - len(indent)))
    fits = len(bar) + len(indent) + carets + 1 + len(says) <= width
    lines.append([(bar, "blue"), (indent + "^" * carets, style), (f" {says}" if says and fits else "", style)])
    if says and not fits:
        lines.append([(bar, "blue"), (indent[: max(0, width - len(bar) - len(says))] + says, style)])
    lines.append([(bar.rstrip(), "blue")])
    return lines


def _marked(span: Span, source: str, column: int | None) -> tuple[int, int]:
    """Where the carets start and how many there are: the whole text where columns are unknown, its first line where it has more."""
    if column is None:
        return len(source) - len(source.lstrip()), len(source.strip())
    end = len(source.rstrip())
    if span.last_line == span.line and span.end_column is not None:
        end = len(source.encode()[: span.end_column].decode(errors="replace"))
    return column, max(1, end - column)


def _fitted(source: str, start: int, marked: int, room: int) -> tuple[str, int]:
    """The part of a long line around what is marked, and how many columns were cut off before it."""
    if len(source) <= room:
        return source, 0
    cut = max(0, min(start - 8, start + marked - room + 4)) if start + marked > room - 2 else 0
    text = source[cut : cut + room]
    if cut:
        text = "…" + text[1:]
    return (text[:-1] + "…" if cut + room < len(source) else text), cut


def _callers(finding: Finding) -> str:
    """Innermost first, without the place itself; of a deep recursion both ends."""
    frames = tuple(reversed(finding.stack))
    if frames and finding.span is not None and same_file(frames[0].span.file, finding.span.file):
        frames = frames[1:] if frames[0].span.line == finding.span.line else frames
    return _chain(frames)


def _chain(frames: UserStack) -> str:
    texts = [f"{frame.function} ({_short(frame.span.file)}:{frame.span.line})" for frame in _without_wrappers(frames)]
    if len(texts) > FRAMES_SHOWN:
        half = FRAMES_SHOWN // 2
        texts[half:-half] = [f"{len(texts) - FRAMES_SHOWN} more"]
    return " <- ".join(texts)


def _without_wrappers(frames: UserStack) -> UserStack:
    """Of a library's frames those of functions that it made inside others, as decorators do, say nothing between the others."""
    own = [number for number, frame in enumerate(frames) if is_user_file(frame.span.file) or INSIDE not in frame.function]
    return tuple(frames[number] for number in own) or frames[:1]


def _hanging(gutter: str, word: str, text: str, width: int) -> list[Line]:
    indent = " " * (len(gutter) + len(word))
    first, *others = _wrap(text, width - len(indent)) or [""]
    return [[(gutter, "blue"), (word, "bold"), (first, "")], *([(indent + other, "")] for other in others)]


def _wrap(text: str, width: int) -> list[str]:
    return [
        piece.replace("\N{NO-BREAK SPACE}", " ")
        for line in text.splitlines()
        for piece in textwrap.wrap(line, max(NARROWEST // 2, width), break_long_words=False, break_on_hyphens=False)
    ]


def guard_lines(report: CompileReport, width: int) -> list[Line]:
    lines: list[Line] = []
    for function in report.functions:
        for entry in function.entries:
            if entry.guards:
                lines += [[("", "")], [(f"{entry_title(function, entry)}, holds while", "bold")]]
                for row in guard_rows(entry.guards):
                    lines += _hanging("  ", "", row, width)
    return lines


def _summary(report: CompileReport, found: tuple[Finding, ...], path: Path | None, page: Page) -> list[Line]:
    if not report.functions:
        return [[("", "")], *_nothing_compiled(report, page)]
    lines: list[Line] = [[("", "")]]
    shown = report.functions[:FUNCTIONS_SHOWN]
    names = max(len(function.name) for function in shown)
    rows = Counter((function.name, function_line(function)) for function in shown)
    for function in shown:
        place = function_line(function)
        is_one_of_several = rows[function.name, place] > 1 and function.compiled_at is not None
        place = function.compiled_at if is_one_of_several and function.compiled_at is not None else place
        lines += _function_rows(report, function, place, names, page.width)
    if len(report.functions) > len(shown):
        lines.append([(f"  and {counted(len(report.functions) - len(shown), 'more function')}", "dim")])
    told = ", ".join(each.replace(" ", "\N{NO-BREAK SPACE}") for each in counts(report, found))
    lines += [[("", "")], *_hanging("", "Summary  ", told, page.width)]
    seconds = _seconds_by_stage(report)
    if seconds:
        parts = [f"{stage}\N{NO-BREAK SPACE}{value * 1e3:.0f}\N{NO-BREAK SPACE}ms" for stage, value in seconds.items() if value >= 0.0005]
        lines += _hanging("", "Compiled ", f"in {sum(seconds.values()):.2f} s: {', '.join(parts)}", page.width)
    if path is not None:
        lines.append([("Report   ", "bold"), (str(path), "")])
    hidden = 0 if page.annotate or page.notes else sum(not is_shown(finding) for finding in found)
    if hidden:
        lines.append([(f"{counted(hidden, 'note')} more with --annotate.", "dim")])
    return lines


def _function_rows(report: CompileReport, function: FunctionFact, place: Span, names: int, width: int) -> Iterator[Line]:
    """`place` tells apart what was compiled several times by several calls of `torch.compile`."""
    graphs, breaks, kernels = function_totals(report, function)
    told = [counted(graphs, "graph"), counted(breaks, "break") if breaks else "", counted(len(kernels), "kernel")]
    uncompiled = all(entry.status == "uncompiled" for entry in function.entries)
    raised = any(entry.exit == "raise" for entry in function.entries)
    words = (NOT_WHOLE if raised else SAYS["uncompiled"]) if uncompiled else " · ".join(part for part in told if part)
    style = "yellow" if uncompiled or breaks else "green"
    yield [(f"  {function.name:{names}}  ", "bold"), (words, style), (f"  {_short(place.file)}:{place.line}", "dim")]
    variants = variants_of(function, min(entry.place for entry in function.entries))
    if len(variants) < 2:
        return
    heads = [f"variant {variant.number} of {variant.total}: " for variant in variants]
    labels = fitted_labels([variant.label for variant in variants], max(20, width - 18) - max(map(len, heads)))
    for variant, head, label in list(zip(variants, heads, labels, strict=True))[:VARIANTS_SHOWN]:
        calls = f"  ({counted(variant.entry.calls, 'call')})" if variant.entry.calls else ""
        yield [(f"    {head}{label}", ""), (calls, "dim")]
    if len(variants) > VARIANTS_SHOWN:
        yield [(f"    and {counted(len(variants) - VARIANTS_SHOWN, 'more variant')}", "dim")]


def counts(report: CompileReport, found: tuple[Finding, ...]) -> list[str]:
    """`3 graphs`, `1 break`, ...: the run in numbers."""
    entries = [entry for function in report.functions for entry in function.entries]
    guards = sum(len(entry.guards) for entry in entries)
    uncompiled = sum(finding.kind == "uncompiled" for finding in found)
    told = [
        counted(len(report.graphs), "graph"),
        counted(breaks_of(entries), "break"),
        counted(len(report.kernels), "kernel"),
        counted(guards, "guard"),
        counted(sum(entry.recompiled is not None for entry in entries), "recompilation") + _of_these_expected(found),
    ]
    return [*told, f"{uncompiled} not compiled"] if uncompiled else told


def _of_these_expected(found: tuple[Finding, ...]) -> str:
    """Those that are made once and are as they should be: `--fail-on recompile` does not count them."""
    again = [finding for finding in found if finding.kind == "recompile"]
    expected = sum(finding.times for finding in again if not is_shown(finding))
    every = sum(finding.times for finding in again)
    return "" if not expected else " (expected)" if expected == every else f" ({expected} expected)"


NOTHING_IS = {
    "functions-not-found": "the program asks for no compilation, and its functions are not found here",
    "backend-unknown": "there is no such backend, or what it needs is missing",
    "disabled-function": "what the program compiles is marked with `disable`",
    "followed-by-debugger": "a debugger follows the program, so its functions ran as they were written",
    "self-check-failed": "this process captures nothing, because the self-check failed",
}
"""Notes after which nothing is compiled, whatever the program asks for."""


def _nothing_compiled(report: CompileReport, page: Page) -> list[Line]:
    program = report.program
    if program.error is not None:
        why = "the program ended with an error before a compiled function was called"
    elif (told := next((note.code for note in report.notes if note.code in NOTHING_IS), None)) is not None:
        why = NOTHING_IS[told]
    elif page.nothing:
        why = page.nothing
    elif program.asks is None and any(note.severity == "error" for note in report.notes):
        why = "the program ran as it was written"
    elif program.asks is None:
        why = "the program did not get so far"
    elif program.asks:
        why = "the program asks for compilation, but called nothing that it compiled"
    else:
        folder = _short(os.path.dirname(os.path.abspath(program.file)))
        where = "in this folder" if folder == "." else f"below {folder}"
        why = f"no function {where} was called with a tensor or calls a module, and the program compiles nothing itself"
    return [[(row, "bold" if number == 0 else "")] for number, row in enumerate(_wrap(f"Nothing was compiled: {why}.", page.width))]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _seconds_by_stage(report: CompileReport) -> dict[str, float]:
    totals: dict[str, float] = {}
    for function in report.functions:
        for entry in function.entries:
            for stage, seconds in entry.seconds.items():
                totals[stage] = totals.get(stage, 0.0) + seconds
    return {stage: totals[stage] for stage in in_flow(totals)}


def _short(file: str) -> str:
    """Of a library's file the path inside the library."""
    for folder in LIBRARY_FOLDERS:
        _, found, inside = file.partition(f"/{folder}/")
        if found:
            return inside
    return shown_path(file)
