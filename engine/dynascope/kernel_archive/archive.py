"""The file: a ZIP with a table of contents, which alone says what is in it.

    write_archive(path, entries)
    entries, refused = read_archive(path)

Read with mistrust: nothing is unpickled or unpacked to where a name in the file points, sizes are checked before they are read, and a
part counts only where its hash is the one in the table. That finds damage; it does not tell who made the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from dynascope.kernel_archive.entry import KINDS, Entry, Kind, Refused

TITLE = "dynascope kernels"
FORMAT = 1
_CONTENTS = "contents.json"
_LARGEST_PART = 256 << 20
_LARGEST_CONTENTS = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Equal kernels make equal files."""
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError, OSError)


class ArchiveUnreadable(Exception):
    """The file is none of ours, or not whole."""


def write_archive(path: Path, entries: Iterable[Entry]) -> None:
    """All of the file or none of it. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED) as file:
            table = [_written(file, entry, number) for number, entry in enumerate(entries)]
            contents = {"title": TITLE, "format": FORMAT, "entries": table}
            file.writestr(zipfile.ZipInfo(_CONTENTS, _EPOCH), json.dumps(contents), zipfile.ZIP_DEFLATED)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _written(file: zipfile.ZipFile, entry: Entry, number: int) -> dict[str, Any]:
    parts = {}
    for suffix, data in entry.parts.items():
        place = f"{number}.{suffix}"
        file.writestr(zipfile.ZipInfo(place, _EPOCH), data, zipfile.ZIP_DEFLATED)
        parts[suffix] = {"file": place, "sha256": hashlib.sha256(data).hexdigest()}
    return {"kind": entry.kind, "name": entry.name, "parts": parts}


def read_archive(path: Path) -> tuple[list[Entry], list[Refused]]:
    """The entries that are whole, and those that are not. Raises ArchiveUnreadable."""
    try:
        with zipfile.ZipFile(path) as file:
            table = _table(file)
            read = [_entry(file, row) for row in table]
    except _BROKEN as error:
        if isinstance(error, FileNotFoundError):
            raise ArchiveUnreadable(f"there is no file {path}") from error
        raise ArchiveUnreadable(f"{path} is no archive of Dynascope's, or not whole: {error or type(error).__name__}") from error
    return [each for each in read if isinstance(each, Entry)], [each for each in read if isinstance(each, Refused)]


def _table(file: zipfile.ZipFile) -> list[Any]:
    contents = json.loads(_read(file, _CONTENTS, _LARGEST_CONTENTS))
    if not isinstance(contents, dict) or contents.get("title") != TITLE:
        raise ValueError("its table of contents is of something else")
    if contents.get("format") != FORMAT:
        raise ValueError(f"it has the format {contents.get('format')!r}, and this version reads {FORMAT}")
    table = contents.get("entries")
    if not isinstance(table, list):
        raise ValueError("it has no table of contents")
    return table


def _entry(file: zipfile.ZipFile, row: Any) -> Entry | Refused:
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return Refused(ascii(name)[:80], "its name is none that a kernel has", damaged=True)
    kind, parts = row.get("kind"), row.get("parts")
    if kind not in KINDS:
        return Refused(name, f"it is of a kind that this version does not know ({ascii(kind)[:40]})")
    if not isinstance(parts, dict) or set(parts) != set(KINDS[kind]):
        return Refused(name, "parts of it are missing", damaged=True)
    read: dict[str, bytes] = {}
    for suffix, facts in parts.items():
        try:
            data = _read(file, str(facts["file"]), _LARGEST_PART)
            if hashlib.sha256(data).hexdigest() != facts["sha256"]:
                return Refused(name, f"its {suffix} is not the one that was put in: the hashes differ", damaged=True)
        except (*_BROKEN, TypeError) as error:
            return Refused(name, f"its {suffix} cannot be read: {error}", damaged=True)
        read[suffix] = data
    return Entry(cast(Kind, kind), name, read)


def _read(file: zipfile.ZipFile, name: str, limit: int) -> bytes:
    with file.open(file.getinfo(name)) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{name} is larger than {limit >> 20} MiB")
    return data
