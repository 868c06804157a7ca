"""The cache folder: what was built once is there for the next process.

    cache_folder()                       ~/.cache/dynascope, or DYNASCOPE_CACHE_DIR, or a temporary folder
    publish(folder / "a.so", data)       readers see all of the file or none of it
    contents(folder)                     what is there; `dynascope cache` prints it
    trim(folder, limit)                  least recently used files go first

Nothing in the folder is precious: any file can go at any time, and whoever misses one builds it again.
"""

from __future__ import annotations

import functools
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from dynascope.native.forking import safe_in_children
from dynascope.native.reasons import CacheUnusable, CacheWriteFailed
from dynascope.report.process_folders import process_folder
from dynascope.report.reason import Explanation

FOLDER_VARIABLE = "DYNASCOPE_CACHE_DIR"
LIMIT_VARIABLE = "DYNASCOPE_CACHE_LIMIT_MB"
_DEFAULT_LIMIT = 4 << 30
BEING_BUILT = ".build-"
"""How folders begin in which a compiler is at work."""
_SAFE_SECONDS = 600.0
"""A file this young may be between its writer and its reader: it is never evicted."""


class CacheError(Exception):
    """A file could not be written. `reason` says what the user can do."""

    def __init__(self, reason: CacheWriteFailed):
        super().__init__(reason.message())
        self.reason = reason


class _CacheState:
    """What this process found out about the folder. Keyed by the wish, so that a changed environment is honoured."""

    def __init__(self) -> None:
        self.lock = safe_in_children(threading.Lock())
        self.chosen: dict[Path, tuple[Path, Explanation | None]] = {}
        self.unchecked_bytes: int | None = None


_state = _CacheState()


def cache_folder() -> Path:
    """The folder to keep built things in. It exists, and this process can write there."""
    return _choose()[0]


@functools.cache
def unshared_folder() -> Path:
    """A folder like the cache's in which nothing lies that another process built."""
    return process_folder("dynascope-built-")


def cache_note() -> Explanation | None:
    """Why the folder is not the one asked for; None where all is well."""
    return _choose()[1]


def publish(path: Path, data: bytes) -> Path:
    """Write a file so that no reader ever sees a part of it. Raises CacheError where the disk will not have it."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(temporary, data)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise write_failure(path.parent, error) from error
    _account(len(data))
    return path


def publish_file(built: Path, path: Path) -> Path:
    """Move a finished file, made on the same disk, to its place at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        size = built.stat().st_size
        os.replace(built, path)
    except OSError as error:
        raise write_failure(path.parent, error) from error
    _account(size)
    return path


def write_failure(folder: Path, error: OSError) -> CacheError:
    return CacheError(CacheWriteFailed(str(folder), error.strerror or str(error)))


def mark_used(path: Path) -> None:
    """Say that the file was of use now: it is evicted later than others."""
    try:
        os.utime(path)
    except OSError:
        # A read-only cache that somebody prepared is still good to read.
        return


def trim(folder: Path, limit: int) -> int:
    """Delete the least recently used files until `limit` bytes remain. Returns the number of bytes that remain."""
    now = time.time()
    files = sorted(_files(folder), key=lambda entry: entry[1])
    total = sum(size for _, _, size in files)
    for path, used, size in files:
        if total <= limit:
            break
        if now - used > _SAFE_SECONDS:
            path.unlink(missing_ok=True)
            total -= size
    return total


def clear() -> None:
    """Empty the cache. Code that is loaded stays loaded, and what a compiler is at work on stays where it is."""
    folder = cache_folder()
    for child in folder.iterdir():
        _remove(child)


def _remove(path: Path) -> None:
    if path.name.startswith(BEING_BUILT):
        return
    try:
        if path.is_dir() and not path.is_symlink():
            for child in path.iterdir():
                _remove(child)
            path.rmdir()
        else:
            path.unlink()
    except OSError:
        # Another process took it away, or put something there meanwhile.
        return


def contents(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every file with its size."""
    return ((path, size) for path, _, size in _files(folder))


def limit_in_bytes() -> int:
    return int(os.environ.get(LIMIT_VARIABLE, _DEFAULT_LIMIT >> 20)) << 20


def _choose() -> tuple[Path, Explanation | None]:
    wish = _wished_folder()
    with _state.lock:
        if wish not in _state.chosen:
            cause = _why_unusable(wish)
            if cause is None:
                _state.chosen[wish] = (wish, None)
            else:
                _state.chosen[wish] = (process_folder("dynascope-cache-"), CacheUnusable(str(wish), cause).explain())
        return _state.chosen[wish]


def _wished_folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base).absolute() / "dynascope"


def _why_unusable(folder: Path) -> str | None:
    """None where files can be made in `folder`. Code is loaded from there: others must not be able to write into it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        cause = _who_else(folder.stat()) or _who_replaces(folder)
        if cause is not None:
            return cause
        probe = folder / f".probe.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _who_else(facts: os.stat_result) -> str | None:
    """Who besides this user may have written a file, or into a folder; None where nobody may."""
    if not hasattr(os, "geteuid"):
        return None
    if facts.st_uid != os.geteuid():
        return f"it belongs to {_user_name(facts.st_uid)}"
    if facts.st_mode & stat.S_IWOTH:
        return "everybody may write there"
    if facts.st_mode & stat.S_IWGRP and not _is_own_group(facts.st_gid):
        return f"the group {facts.st_gid} may write there"
    return None


def _who_replaces(folder: Path) -> str | None:
    """Where everybody may write to a folder above, and no sticky bit keeps what is there."""
    for above in folder.resolve().parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"everybody may write to {above}, and put another folder in its place"
    return None


def _user_name(number: int) -> str:
    try:
        import pwd

        return f"the user {pwd.getpwuid(number).pw_name}"
    except (ImportError, KeyError):
        return f"the user {number}"


def _is_own_group(number: int) -> bool:
    """Many systems give each user a group of that name, of which nobody else is a member."""
    try:
        import grp
        import pwd

        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid())
    except (ImportError, KeyError):
        return False
    return group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def is_own_file(path: Path) -> bool:
    """Whether the file is there and nobody but this user (or root) can have written it: machine code is loaded from it."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(facts.st_mode):
        return False
    return _who_else(facts) is None or (facts.st_uid == 0 and not facts.st_mode & (stat.S_IWOTH | stat.S_IWGRP))


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


def _account(size: int) -> None:
    """Look at the size of the whole folder at this process's first write, then after every eighth of the limit."""
    limit = limit_in_bytes()
    with _state.lock:
        _state.unchecked_bytes = size + (limit if _state.unchecked_bytes is None else _state.unchecked_bytes)
        due = _state.unchecked_bytes > limit // 8
        if due:
            _state.unchecked_bytes = 0
    if due:
        trim(cache_folder(), limit)


def _files(folder: Path) -> Iterator[tuple[Path, float, int]]:
    """Every file with the time of its last use and its size; files that vanish meanwhile are passed over."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                facts = path.lstat()
            except OSError:
                continue
            yield path, facts.st_mtime, facts.st_size
