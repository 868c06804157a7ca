"""Export and import of a cache folder.

    exported = export(Path("kernels.zip"), cache_folder(), used_since=None)
    imported = take(Path("kernels.zip"), cache_folder())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from dynascope.dataclass import dataclass
from dynascope.kernel_archive import cubins, shared_objects
from dynascope.kernel_archive.archive import read_archive, write_archive
from dynascope.kernel_archive.entry import Entry, Refused


@dataclass(frozen=True, slots=True)
class Exported:
    entries: tuple[Entry, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    placed: tuple[Entry, ...]
    here_already: tuple[Entry, ...]
    refused: tuple[Refused, ...]


def export(path: Path, folder: Path, used_since: float | None = None) -> Exported:
    """Every kernel of the folder, or those that were built or loaded since a moment of the disk's clock. Raises OSError."""
    processor, left = shared_objects.collect(_used(shared_objects.files(folder), used_since))
    gpu, left_too = cubins.collect(_used(cubins.files(folder), used_since))
    entries = (*processor, *gpu)
    write_archive(path, entries)
    return Exported(entries, (*left, *left_too))


def _used(paths: Iterable[Path], since: float | None) -> list[Path]:
    """Whoever loads a file marks it, by its time."""
    return [path for path in paths if since is None or path.stat().st_mtime >= since]


def take(path: Path, folder: Path) -> Imported:
    """Put what fits into the folder. Raises ArchiveUnreadable, CacheError."""
    entries, damaged = read_archive(path)
    check_of, place_of = _checks(entries), {"processor": shared_objects.place, "gpu": cubins.place}
    refused, placed, known = list(damaged), [], []
    for entry in entries:
        why = check_of[entry.kind](entry)
        if why is not None:
            refused.append(why)
        elif place_of[entry.kind](entry, folder):
            placed.append(entry)
        else:
            known.append(entry)
    return Imported(tuple(placed), tuple(known), tuple(refused))


def _checks(entries: Iterable[Entry]) -> dict[str, Callable[[Entry], Refused | None]]:
    """The machine is asked for its GPUs, which takes seconds, only where there are kernels for one."""
    for_gpus = any(entry.kind == "gpu" for entry in entries)
    here = cubins.here() if for_gpus else cubins.Here(None, frozenset())
    return {"processor": shared_objects.check, "gpu": partial(cubins.check, here=here)}
