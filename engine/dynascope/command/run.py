"""`dynascope run FILE`: the program in a child process with our engine in it, then the report.

The child has the program's own standard streams and arguments, and its exit code or signal becomes ours. The parent reads
the report from a file, so a program that calls `os._exit` or crashes its interpreter still gets what was known by then.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynascope.command.modules import as_module
from dynascope.command.named_program import USAGE, cannot_be_run
from dynascope.command.output import failure, write_output
from dynascope.command.program import environment
from dynascope.command.ranks import Ranks, gather
from dynascope.command.reasons import CrashedProgram, TimedOut
from dynascope.reasons import BrokenTorch, MissingTorch, WrongPython, WrongTorch
from dynascope.report.events import EventStream
from dynascope.report.facts import CompileReport
from dynascope.report.reason import Reason
from dynascope.report.store import ReportUnreadable, read_report, write_report
from dynascope.report_folders import new_report_path

UNMET = frozenset(reason.code for reason in (BrokenTorch, MissingTorch, WrongPython, WrongTorch))
TIMED_OUT = 124
FAILED = 1
OWN_OPTIONS = frozenset({"--device", "--dynamic", "--fullgraph", "--backend", "--no-cache", "--guards", "--annotate", "--quiet"}) | {
    "--times", "--json", "--output-format", "--output", "--fail-on", "--timeout"
}  # fmt: skip
FORWARDED = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)


def run(options: argparse.Namespace) -> int:
    """Run the file; the exit code is the program's own (124 after a time-out, 2 for a missing file)."""
    events = EventStream(options.events_fd)
    if not options.module and cannot_be_run(options.file, "run FILE [ARGS]", True, events):
        return USAGE
    return run_program(options, events)


def run_program(options: argparse.Namespace, events: EventStream) -> int:
    """The same of a file that is known to be there."""
    if not all(map(can_be_written, (options.output, options.json))):
        return USAGE
    path = _fresh_report_path(options)
    ranks = Ranks.here() if options.events_fd is None else None
    code = execute(options, path, events)
    report = None if options.events_fd is not None else _report_at(path)
    if ranks is not None:
        ranks.hand_in(report)
        if not ranks.prints_for_all():
            return _leave(code)
        report = None if report is None else ranks.together(report)
    if report is not None:
        if not options.quiet:
            if not _was_said(report, options):
                write_output(report, options, path)
            _point_out_misplaced(options, report)
        code = _judged(report, options, code)
    return _leave(code)


def run_for_report(options: argparse.Namespace) -> tuple[int, CompileReport | None]:
    """Run the file for those who print something else of its report: the exit code, and the report if there is one. What is missing
    was said."""
    if cannot_be_run(options.file, f"{options.command} FILE [ARGS]"):
        return USAGE, None
    if not can_be_written(options.json):
        return USAGE, None
    options.events_fd = None
    path = _fresh_report_path(options)
    code = execute(options, path, EventStream(None))
    try:
        return code, read_report(path)
    except (FileNotFoundError, ReportUnreadable) as error:
        print(f"dynascope: no report of {options.file}: {error}", file=sys.stderr)
        return code or FAILED, None


def _fresh_report_path(options: argparse.Namespace) -> Path:
    """Where the report will be; an earlier one is gone."""
    path = Path(options.json).absolute() if options.json else new_report_path(options.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def _was_said(report: CompileReport, options: argparse.Namespace) -> bool:
    """What keeps the whole program from being compiled was said as it began: in words the report has nothing to add."""
    in_words = options.output_format == "text" and options.output is None
    return in_words and any(note.code in UNMET for note in report.notes)


def _judged(report: CompileReport, options: argparse.Namespace, code: int) -> int:
    """The program's own code; 1 where it went well but has what the options call a failure."""
    found = failure(report, options.fail_on)
    if code != 0 or not found:
        return code
    print(f"dynascope: {found} (--fail-on {', '.join(dict.fromkeys(options.fail_on))}).", file=sys.stderr)
    return FAILED


def _point_out_misplaced(options: argparse.Namespace, report: CompileReport) -> None:
    """What stands after FILE belongs to the program. An option of ours there that the program does not name was meant for us."""
    words = options.arguments[: options.arguments.index("--")] if "--" in options.arguments else options.arguments
    try:
        text = Path(report.program.file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for word in words:
        name = word.partition("=")[0]
        if name in OWN_OPTIONS and name not in text:
            print(
                f"dynascope: `{name}` stands after {options.file}, so it was given to the program. "
                f"For Dynascope write it before: dynascope run {word} ... {options.file}",
                file=sys.stderr,
            )


def can_be_written(output: str | None) -> bool:
    """Asked before the program runs, which may take hours; the folder is made, as for `--json`."""
    if output is None:
        return True
    path = Path(output).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        was_there = path.exists()
        path.open("ab").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        print(f"dynascope: {output} cannot be written: {error.strerror}.", file=sys.stderr)
        return False
    return True


def execute(options: argparse.Namespace, report_path: Path, events: EventStream) -> int:
    """The program from start to end; its return code, negative for a signal, as `subprocess` gives it."""
    child = subprocess.Popen(
        child_command(options),
        env=environment(child_settings(options, report_path)),
        stdout=sys.stderr if _is_for_a_program(options) else None,
        pass_fds=tuple(fd for fd in (options.events_fd, getattr(options, "keep_fd", None)) if fd is not None),
        start_new_session=False,
    )
    old_handlers = {number: signal.signal(number, lambda n, _: child.send_signal(n)) for number in FORWARDED}
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = _wait(child, options, events)
    finally:
        signal.signal(signal.SIGINT, interrupt)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
    _say_how_it_ended(code, report_path)
    gather(report_path)
    if code < 0 and -code not in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        _complain(CrashedProgram(options.file, signal.Signals(-code).name), events)
    events.end(code if code >= 0 else None, -code if code < 0 else None)
    return code


def _is_for_a_program(options: argparse.Namespace) -> bool:
    """Whether standard output is the report alone, to be read by a program: what FILE prints is none of it."""
    return getattr(options, "output_format", "text") in ("json", "sarif", "html") and getattr(options, "output", None) is None


def execute_apart(options: argparse.Namespace, report_path: Path, **streams: Any) -> subprocess.CompletedProcess:
    """The program for those who print something else than what it prints. Raises `subprocess.TimeoutExpired`."""
    surroundings = environment(child_settings(options, report_path))
    timeout = getattr(options, "timeout", None)
    done = subprocess.run(child_command(options), env=surroundings, check=False, timeout=timeout, **streams)
    gather(report_path)
    return done


def child_settings(options: argparse.Namespace, report_path: Path) -> dict[str, Any]:
    module = as_module(options)
    return {
        "file": options.file,
        "arguments": options.arguments,
        "module": module.name if module is not None else None,
        "root": module.root if module is not None else None,
        "report": str(report_path),
        "events": options.events_fd,
        "keep": getattr(options, "keep_fd", None),
        "check": getattr(options, "check", False),
        "trace": getattr(options, "trace", False) or None,
        "levels": getattr(options, "levels", False) or None,
        "compare": getattr(options, "compare", False),
        "profile": getattr(options, "profile", False) or None,
        "device": options.device,
        "dynamic": options.dynamic or None,
        "fullgraph": options.fullgraph or None,
        "backend": options.backend,
        "cache": not options.no_cache,
    }


def child_command(options: argparse.Namespace) -> list[str]:
    module = as_module(options)
    return [sys.executable, *(["-m", module.name] if module is not None else [options.file]), *options.arguments]


def _say_how_it_ended(code: int, path: Path) -> None:
    """The program cannot know its own exit code, nor the signal that ended it."""
    try:
        report = read_report(path)
        program = replace(report.program, exit_code=code if code >= 0 else None, signal=-code if code < 0 else None)
        write_report(replace(report, program=program), path)
    except (OSError, ReportUnreadable):
        # The program ended before there was a report, or somebody took it away.
        return


def _wait(child: subprocess.Popen, options: argparse.Namespace, events: EventStream) -> int:
    timeout = getattr(options, "timeout", None)
    try:
        return child.wait(timeout)
    except subprocess.TimeoutExpired:
        _complain(TimedOut(options.file, timeout), events)
        _end(child)
        return TIMED_OUT


def _end(child: subprocess.Popen) -> None:
    """Ask the child and what it started to end, then make them."""
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for process in (*_descendants(child.pid), child.pid):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def _descendants(process: int) -> list[int]:
    """Processes started by `process`, deepest first; empty where the system has no /proc."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    return _deepest_first(process, children)


def _deepest_first(process: int, children: dict[int, list[int]]) -> list[int]:
    found = []
    for child in children.get(process, ()):
        found += [*_deepest_first(child, children), child]
    return found


def _report_at(path: Path) -> CompileReport | None:
    try:
        return read_report(path)
    except FileNotFoundError:
        return None
    except ReportUnreadable as error:
        print(f"dynascope: {error}", file=sys.stderr)
        return None


def _complain(reason: Reason, events: EventStream) -> None:
    explanation = reason.explain()
    events.problem(explanation)
    print(f"dynascope: {explanation.message} {explanation.remedy}", file=sys.stderr)


def _leave(code: int) -> int:
    """End as the program ended: by its signal, or with its code."""
    if code >= 0:
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
    return 128 - code
