"""Ending a process with everything it started: its group, and descendants that left the group.

Descendants are found by parent id while the root lives; one that left the group and was orphaned cannot be found.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def signal_tree(root: int, number: signal.Signals) -> set[int]:
    """Sends the signal to the group led by `root` and to its descendants elsewhere; returns those descendants."""
    family = descendants(root)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(root, number)
    signal_each(family, number)
    return family


def signal_each(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for process, parent in _parents():
        children.setdefault(parent, []).append(process)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def _parents() -> list[tuple[int, int]]:
    """(process, parent) of every process of this machine that can be seen."""
    if Path("/proc/self/stat").exists():
        return [pair for entry in Path("/proc").iterdir() if entry.name.isdigit() and (pair := _read_stat(entry))]
    listing = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
    return [(int(process), int(parent)) for process, parent in (line.split() for line in listing.splitlines())]


def _read_stat(entry: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        # The command's name stands in parentheses and may itself hold spaces and parentheses.
        return int(entry.name), int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return None
