"""What a person can do on a line: the names of the commands, and one offer of one command.

A lens, a code action and a command are the same `Act` shown in different places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

COMPILE_AND_RUN = "dynascope.compileAndRun"
RUN_TEST = "dynascope.runTest"
CANCEL = "dynascope.cancel"
SHOW_KERNEL = "dynascope.showKernel"
SHOW_GRAPH = "dynascope.showGraph"
OPEN_REPORT = "dynascope.openReport"
LIST_GRAPHS = "dynascope.listGraphs"
SHOW_SUMMARY = "dynascope.showSummary"
SHOW_REASON = "dynascope.showReason"
CHOOSE_VARIANT = "dynascope.chooseVariant"
COMPARE_VARIANTS = "dynascope.compareVariants"
COMPARE_RUNS = "dynascope.compareRuns"
SHOW_PICTURE = "dynascope.showPicture"
FIND_FIXES = "dynascope.findFixes"
LIST_BACKENDS = "dynascope.listBackends"
COMPARE_BACKENDS = "dynascope.compareBackends"
COMPARE_CAPTURES = "dynascope.compareCaptures"
SHOW_TRACE = "dynascope.showTrace"
CLEAR = "dynascope.clear"
DEBUG_INFORMATION = "dynascope.debugInformation"
DOCTOR = "dynascope.doctor"

COMMANDS = (
    COMPILE_AND_RUN,
    RUN_TEST,
    CANCEL,
    SHOW_KERNEL,
    SHOW_GRAPH,
    OPEN_REPORT,
    LIST_GRAPHS,
    SHOW_SUMMARY,
    SHOW_REASON,
    CHOOSE_VARIANT,
    COMPARE_VARIANTS,
    COMPARE_RUNS,
    SHOW_PICTURE,
    FIND_FIXES,
    LIST_BACKENDS,
    COMPARE_BACKENDS,
    COMPARE_CAPTURES,
    SHOW_TRACE,
    CLEAR,
    DEBUG_INFORMATION,
    DOCTOR,
)
FILE_COMMANDS = frozenset({COMPILE_AND_RUN, CANCEL, SHOW_SUMMARY, CLEAR})


@dataclass(frozen=True, slots=True)
class Act:
    """One offer: `command` on the file at `path` (or on `subject`, where the command takes something else)."""

    title: str
    command: str
    path: str | None = None
    subject: str | None = None
    detail: Mapping[str, str | int] = field(default_factory=dict)


def compile_and_run(path: str, title: str = "Compile and run") -> Act:
    return Act(title, COMPILE_AND_RUN, path)
