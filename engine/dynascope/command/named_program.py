"""The program that a command is given: why it cannot be run, said before anything is tried.

    if cannot_be_run("no.py", "fix FILE [ARGS]"):     dynascope: There is no file `no.py`. Name a Python file: ...
        return USAGE
"""

from __future__ import annotations

import sys
from pathlib import Path

from dynascope.command.reasons import IsNotebook, MissingFile
from dynascope.report.events import EventStream
from dynascope.report.reason import Reason
from dynascope.report.tables import width_of, wrapped

USAGE = 2


def cannot_be_run(file: str, usage: str, takes_folders: bool = False, events: EventStream | None = None) -> bool:
    """Whether something stands in its way; that is on standard error then, and told to an editor that listens. `usage`: what the command
    takes."""
    obstacle = _obstacle(file, usage, takes_folders)
    if obstacle is None:
        return False
    explanation = obstacle.explain()
    if events is not None:
        events.problem(explanation)
    print("\n".join(wrapped(f"dynascope: {explanation.message} {explanation.remedy}", width_of(sys.stderr))), file=sys.stderr)
    return True


def _obstacle(file: str, usage: str, takes_folders: bool) -> Reason | None:
    """Of what is seen before it is tried."""
    path = Path(file)
    if not path.is_file():
        is_one = takes_folders and (path / "__main__.py").is_file()
        return None if is_one else MissingFile(file, usage)
    return IsNotebook(file) if path.suffix == ".ipynb" and path.read_bytes().lstrip().startswith(b"{") else None
