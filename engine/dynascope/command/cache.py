"""`dynascope cache`: where built kernels are kept, how big they are; export, import, clear.

    dynascope cache
    dynascope cache export kernels.zip                     all of the cache
    dynascope cache export kernels.zip train.py --steps 1  what this program uses: it is run, compiled
    dynascope cache import kernels.zip
    dynascope cache clear
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dynascope.native.cache import CacheError, cache_folder, cache_note, clear, contents, limit_in_bytes
from dynascope.report.picture import readable_bytes

if TYPE_CHECKING:
    from dynascope.kernel_archive.entry import Entry, Refused

FAILED = 1
USAGE = 2
KINDS = (
    ("native", "kernels for the processor, with their texts and records"),
    ("triton", "kernels for GPUs, with their texts"),
    ("graphs", "what kernels of a graph are called with, and in which order"),
    ("runs", "reports of runs"),
    ("compilers", "versions of compilers"),
    ("", "others"),
)
"""By the folder they are in."""


def cache(options: argparse.Namespace) -> int:
    actions = {None: show, "export": export, "import": take, "clear": empty}
    note = cache_note()
    if note is not None:
        print(f"dynascope: {note.message} {note.remedy}", file=sys.stderr)
        return FAILED
    return actions[options.action](options)


def show(_: argparse.Namespace) -> int:
    folder = cache_folder()
    sizes: dict[str, list[int]] = {kind: [] for kind, _ in KINDS}
    for path, size in contents(folder):
        kind = path.relative_to(folder).parts[0]
        sizes[kind if kind in sizes else ""].append(size)
    whole = sum(map(sum, sizes.values()))
    print(f"{folder}: {readable_bytes(whole)} of {readable_bytes(limit_in_bytes())}; what was not used for longest goes first")
    for kind, title in KINDS:
        if sizes[kind]:
            print(f"  {readable_bytes(sum(sizes[kind])):>10}  {len(sizes[kind]):6} files  {title}")
    return 0


def empty(_: argparse.Namespace) -> int:
    folder = cache_folder()
    before = sum(size for _, size in contents(folder))
    clear()
    print(f"{readable_bytes(before - sum(size for _, size in contents(folder)))} freed in {folder}")
    return 0


def export(options: argparse.Namespace) -> int:
    """The program's own code where one is run and fails."""
    from dynascope.command.named_program import cannot_be_run
    from dynascope.command.run import run_program
    from dynascope.kernel_archive.moving import export as write
    from dynascope.report.events import EventStream

    folder, code, since = cache_folder(), 0, None
    if options.file is not None:
        if not options.module and cannot_be_run(options.file, "cache export ARCHIVE FILE [ARGS]", takes_folders=True):
            return USAGE
        since = _now_on_disk(folder)
        code = run_program(options, EventStream(None))
    try:
        exported = write(Path(options.archive), folder, since)
    except OSError as error:
        print(f"dynascope: {options.archive} cannot be written: {error.strerror or error}", file=sys.stderr)
        return FAILED
    size = Path(options.archive).stat().st_size
    print(f"{options.archive}: {_counted(exported.entries)}, {readable_bytes(size)}")
    _say_refused(exported.refused, "left out")
    return code


def take(options: argparse.Namespace) -> int:
    """1 where something in the file is not what it says it is, or nothing in it is of use; 2 where it cannot be read."""
    from dynascope.kernel_archive.archive import ArchiveUnreadable
    from dynascope.kernel_archive.moving import take as read

    try:
        imported = read(Path(options.archive), cache_folder())
    except ArchiveUnreadable as error:
        print(f"dynascope: {error}", file=sys.stderr)
        return USAGE
    except CacheError as error:
        print(f"dynascope: {error.reason.message()} {error.reason.remedy()}", file=sys.stderr)
        return FAILED
    known = f"; {len(imported.here_already)} were here already" if imported.here_already else ""
    print(f"{cache_folder()}: {_counted(imported.placed)} added{known}")
    _say_refused(imported.refused, "does not fit")
    useless = imported.refused and not (imported.placed or imported.here_already)
    return FAILED if useless or any(each.damaged for each in imported.refused) else 0


def _counted(entries: Iterable[Entry]) -> str:
    from dynascope.kernel_archive.entry import TITLES

    kinds = [entry.kind for entry in entries]
    words = [f"{kinds.count(kind)} {title}" for kind, title in TITLES.items() if kind in kinds]
    return ", ".join(words) if words else "no kernels"


def _say_refused(refused: Iterable[Refused], what: str) -> None:
    for each in refused:
        print(f"  {'damaged' if each.damaged else what}: {each.name}: {each.why}")


def _now_on_disk(folder: Path) -> float:
    """The disk's own clock: it may lag behind ours, and be another machine's."""
    probe = folder / f".moment.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink()
