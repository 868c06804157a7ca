"""`dynascope show STAGE FILE[::FUNCTION]`: run the program quietly and print what one stage made."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from dynascope.command.named_program import USAGE, cannot_be_run
from dynascope.command.run import execute_apart
from dynascope.report.facts import CompileReport
from dynascope.report.stages import LEVELS, followed_inside, is_named, one_text, stage_texts
from dynascope.report.store import ReportUnreadable, read_report

OPERATORS = "operators"
"""No stage of a program: what becomes of each of torch's operators."""
NOTHING_FOUND = 1
DEFAULT = "dynascope"


def show(options: argparse.Namespace) -> int:
    """Print the stage; the exit code is the program's, or 1 where there is nothing to show and why is printed."""
    if options.stage == OPERATORS:
        return _operators(options.target)
    if not options.target:
        print(f"dynascope: show {options.stage} needs a FILE: dynascope show {options.stage} FILE[::FUNCTION].", file=sys.stderr)
        return USAGE
    file, _, function = options.target.partition("::")
    if cannot_be_run(file, "show STAGE FILE[::FUNCTION]"):
        return USAGE
    options.file, options.timeout, options.events_fd = file, None, None
    options.levels, options.trace = options.stage in LEVELS, options.stage == "trace"
    with tempfile.TemporaryDirectory(prefix="dynascope-show-") as folder:
        path = Path(folder) / "report.json"
        # The program's own output goes to the error stream, so that what is shown can be piped.
        code = execute_apart(options, path, stdout=sys.stderr).returncode
        try:
            report = read_report(path)
        except (FileNotFoundError, ReportUnreadable) as error:
            print(f"dynascope: no report of {file}: {error}", file=sys.stderr)
            return code or NOTHING_FOUND
    texts = list(stage_texts(report, options.stage, function))
    if not texts:
        print(_nothing(report, options.stage, function), file=sys.stderr)
        return code or NOTHING_FOUND
    print(one_text(texts))
    return code


def _operators(wanted: str) -> int:
    from dynascope.operator_table import counts, shown_operators

    facts = shown_operators(wanted)
    if not facts:
        print(f"dynascope: no operator of torch's has `{wanted}` in its name.", file=sys.stderr)
        return NOTHING_FOUND
    print("\n".join([*(fact.line() for fact in facts), "", counts(facts)]))
    return 0


def _nothing(report: CompileReport, stage: str, function: str) -> str:
    known = ", ".join(dict.fromkeys(fact.name for fact in report.functions)) or "none"
    wanted = f" of `{function}`" if function else ""
    why = _why(report, stage, function)
    return f"dynascope: nothing was made at the stage `{stage}`{wanted}. Functions compiled: {known}.{f' {why}' if why else ''}"


def _why(report: CompileReport, stage: str, function: str) -> str:
    """Another function is meant, another backend makes the code, or it is what was noted first."""
    entries = [entry for fact in report.functions if is_named(fact, function) for entry in fact.entries]
    if not entries:
        inside = followed_inside(report, function)
        return f"`{function}` is part of these: {', '.join(inside)}." if inside else ""
    others = [graph.backend for graph in report.graphs if any(entry.graph == graph.identifier for entry in entries)]
    if others and DEFAULT not in others:
        return f"Their backend is {', '.join(dict.fromkeys(others))}; `{stage}` is of our own."
    notes = [note.message for graph in report.graphs for note in graph.notes]
    notes += [entry.reason.message for entry in entries if entry.reason is not None]
    return notes[0] if notes else ""
