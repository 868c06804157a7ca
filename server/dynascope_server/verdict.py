"""How a run ended, from what was seen of it: a table of cases, the first that fits.

ended by SIGSEGV while fusing `f`  ->  errored, "Python was ended by SIGSEGV while fusing `f`."
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dynascope.report.reason import Explanation

from dynascope_server.events import Stage

State = Literal["starting", "running", "errored", "exited"]
ERRORS = re.compile(r"^(\S+: )?error: (.+)$", re.IGNORECASE | re.MULTILINE)
USAGE = re.compile(r"^\s*usage:", re.IGNORECASE | re.MULTILINE)
EXPLAINED = (2, 78, 124)
"""The engine's own exit codes: no such file, an interpreter it cannot use, a time limit. It says more as a problem."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the worker saw of a program that is over."""

    return_code: int
    log: str
    end_announced: bool = False
    report_written: bool = False
    cancelled: bool = False
    timed_out: float | None = None
    problems: tuple[Explanation, ...] = ()
    last_stage: Stage | None = None
    last_words: str = ""
    """The end of standard error."""

    @property
    def errors(self) -> tuple[Explanation, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


@dataclass(frozen=True, slots=True)
class Verdict:
    state: State
    failure: Explanation | None = None


def judge(seen: Seen) -> Verdict:
    return next(make(seen) for applies, make in CASES if applies(seen))


REFUSED = 2
"""The exit code of a program that was not given the arguments it wants: argparse's, click's and that of Unix tools."""


def refused_arguments(seen: Seen) -> str:
    """What the program said of its arguments when it left because of them; empty where it did not."""
    found = ERRORS.findall(seen.last_words) if seen.return_code == REFUSED else []
    # A usage of many options is longer than the last words that are kept; who names the program has printed one.
    is_usage = bool(found) and (bool(found[-1][0]) or USAGE.search(seen.last_words) is not None)
    return found[-1][1].strip().rstrip(".") if is_usage else ""


def failed(code: str, message: str, remedy: str) -> Verdict:
    return Verdict("errored", Explanation(code, "error", message, remedy))


def _timed_out(seen: Seen) -> Verdict:
    message = f"The program ran longer than {seen.timed_out:g} seconds and was ended."
    return failed("run-timeout", message, "Raise `timeout` in Dynascope's settings, or set it to 0 for no limit.")


def _explained(seen: Seen) -> Verdict:
    return Verdict("errored", seen.errors[-1])


def _crashed(seen: Seen) -> Verdict:
    number = -seen.return_code
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    last = seen.last_stage
    during = f" while Dynascope was at `{last.stage}` of `{last.function}`" if last and _compiling(seen) else ""
    remedy = {
        "SIGKILL": "The system ends a program so when memory runs out; otherwise someone killed it.",
        "SIGTERM": "Something outside this program asked it to end.",
    }.get(name, "If plain `python` runs this file without crashing, the crash is a defect of Dynascope's.")
    return failed(
        "interpreter-crashed", f"Python was ended by {name}{during}.", f"{remedy} Its output is in {seen.log}."
    )


def _no_engine(seen: Seen) -> Verdict:
    message = "The user's Python cannot import the engine (`dynascope`)."
    return failed("engine-missing", message, "Set `dynascope.enginePath` to the folder that holds it.")


def _no_report(seen: Seen) -> Verdict:
    words = seen.last_words.strip().splitlines()
    last = f" Its last words: {words[-1]}" if words else ""
    message = f"The engine ended (exit code {seen.return_code}) without a report.{last}"
    return failed("no-report", message, f"Its output is in {seen.log}; `Dynascope: Doctor` checks the installation.")


def _left_early(seen: Seen) -> Verdict:
    how = f"`os._exit` or the like, exit code {seen.return_code}"
    message = f"The program left at once ({how}); results up to then are shown."
    remedy = "Leave with `sys.exit` instead of `os._exit` to see the rest."
    return Verdict("exited", Explanation("left-early", "information", message, remedy))


CASES: tuple[tuple[Callable[[Seen], bool], Callable[[Seen], Verdict]], ...] = (
    (lambda seen: seen.cancelled, lambda seen: Verdict("exited")),
    (lambda seen: seen.timed_out is not None, _timed_out),
    (lambda seen: bool(seen.errors) and (seen.return_code in EXPLAINED or seen.return_code < 0), _explained),
    (lambda seen: seen.return_code < 0, _crashed),
    (
        lambda seen: not seen.end_announced and "No module named dynascope" in seen.last_words.replace("'", ""),
        _no_engine,
    ),
    (lambda seen: not seen.end_announced and not seen.report_written and bool(seen.errors), _explained),
    (lambda seen: not seen.end_announced and not seen.report_written, _no_report),
    (lambda seen: not seen.end_announced, _left_early),
    (lambda seen: True, lambda seen: Verdict("exited")),
)


def _compiling(seen: Seen) -> bool:
    return seen.last_stage is not None and not seen.end_announced
