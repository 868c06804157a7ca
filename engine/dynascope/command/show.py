"""`dynascope show STAGE FILE[::FUNCTION]`: run the program quietly and print what one stage made."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact
from dynascope.report.store import ReportUnreadable, read_report

STAGES: dict[str, tuple[str, ...]] = {
    "bytecode": ("bytecode", "rewritten-bytecode"),
    "torch": ("torch",),
    "aten": ("aten-forward", "aten-backward"),
    "loops": ("loops-forward", "loops-backward"),
    "groups": ("groups-forward", "groups-backward"),
    "kernels": ("kernels",),
    "wrapper": ("wrapper-forward", "wrapper-backward"),
    "guards": ("guards",),
}
OPERATORS = "operators"
"""No stage of a program: what becomes of each of torch's operators."""
NOTHING_FOUND = 1
USAGE = 2


def show(options: argparse.Namespace) -> int:
    """Print the stage; the exit code is the program's, or 1 where there is nothing to show and why is printed."""
    if options.stage == OPERATORS:
        from dynascope.operator_table import table

        print(table(options.target))
        return 0
    if not options.target:
        print("dynascope: show needs a FILE", file=sys.stderr)
        return USAGE
    file, _, function = options.target.partition("::")
    options.file, options.timeout, options.events_fd = file, None, None
    with tempfile.TemporaryDirectory(prefix="dynascope-show-") as folder:
        path = Path(folder) / "report.json"
        code = _run_quietly(options, path)
        try:
            report = read_report(path)
        except (FileNotFoundError, ReportUnreadable) as error:
            print(f"dynascope: no report of {file}: {error}", file=sys.stderr)
            return code or NOTHING_FOUND
    texts = list(stage_texts(report, options.stage, function))
    if not texts:
        print(_nothing(report, options.stage, function), file=sys.stderr)
        return code or NOTHING_FOUND
    print("\n\n".join(texts))
    return code


def stage_texts(report: CompileReport, stage: str, function: str) -> Iterator[str]:
    """The texts of a stage for every entry of the functions of that name (all functions when it is empty)."""
    graphs = {graph.identifier: graph for graph in report.graphs}
    for fact in report.functions:
        if not _is_named(fact, function):
            continue
        for entry in fact.entries:
            title = f"# {fact.name}, {entry.identifier} ({entry.region} at line {entry.span.line})"
            graph = graphs.get(entry.graph or "")
            for text in entry.texts + (graph.texts if graph else ()):
                if text.stage in STAGES[stage]:
                    yield f"{title}: {text.stage}\n{text.text.rstrip()}"
            yield from _derived_texts(report, entry, stage, title)


def _derived_texts(report: CompileReport, entry: EntryFact, stage: str, title: str) -> Iterator[str]:
    if stage == "guards":
        yield "\n".join([f"{title}: guards", *(f"{guard.check}    # {guard.span or ''}" for guard in entry.guards)])
    if stage == "kernels":
        for kernel in report.kernels:
            if kernel.graph == entry.graph and kernel.graph is not None:
                often = f", {kernel.launches} times a call" if kernel.launches > 1 else ""
                yield f"{title}: {kernel.identifier} ({kernel.phase}, {kernel.language}{often})\n{kernel.text.rstrip()}"


def _is_named(fact: FunctionFact, function: str) -> bool:
    return function in ("", fact.name, fact.name.rsplit(".", 1)[-1])


def _nothing(report: CompileReport, stage: str, function: str) -> str:
    known = ", ".join(dict.fromkeys(fact.name for fact in report.functions)) or "none"
    wanted = f" of `{function}`" if function else ""
    return f"dynascope: there is no {stage}{wanted} to show. Functions compiled: {known}."


def _run_quietly(options: argparse.Namespace, path: Path) -> int:
    """The program's own output goes to the error stream, so that what is shown can be piped."""
    from dynascope.command.program import environment
    from dynascope.command.run import child_command, child_settings

    surroundings = environment(child_settings(options, path))
    return subprocess.run(child_command(options), env=surroundings, stdout=sys.stderr, check=False).returncode
