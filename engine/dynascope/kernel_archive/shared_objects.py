"""C and C++ kernels of a cache folder as entries, and back.

    entries, refused = collect(folder)
    misfit(entry)                  None where this machine would build the same
    place(entry, folder)           True where it was not there yet
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dynascope.kernel_archive.entry import Entry, Refused
from dynascope.native.cache import is_own_file, publish
from dynascope.native.recipes import Record, misfit, read_record, record_path
from dynascope.native.toolchain import Language, recipe_here

SUFFIXES: dict[str, str] = {"c": ".c", "c++": ".cpp"}
_FOLDER = "native"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / _FOLDER).glob("*.so") if is_own_file(path))


def collect(paths: Iterable[Path]) -> tuple[list[Entry], list[Refused]]:
    """Of shared objects in the cache. What has no record, or is not what its record says, is left out."""
    read = [_collected(path) for path in paths]
    return [each for each in read if isinstance(each, Entry)], [each for each in read if isinstance(each, Refused)]


def _collected(path: Path) -> Entry | Refused:
    try:
        text_record = record_path(path).read_bytes()
        record = read_record(text_record)
        if record is None:
            return Refused(path.stem, "its record is of another version")
        text = path.with_suffix(SUFFIXES[record.recipe.language]).read_bytes()
        entry = Entry("processor", path.stem, {"so": path.read_bytes(), "text": text, "record": text_record})
    except (OSError, KeyError) as error:
        return Refused(path.stem, f"what it was built from is no longer there ({error})")
    why = _not_what_it_says(entry, record)
    return entry if why is None else Refused(path.stem, why, damaged=True)


def check(entry: Entry) -> Refused | None:
    """Why this machine has no use for it. Its key is computed again from its text, and from what this machine is."""
    record = read_record(entry.parts["record"])
    if record is None:
        return Refused(entry.name, "its record is of another version")
    if record.recipe.language not in SUFFIXES:
        return Refused(entry.name, "it is in a language that nothing here is written in", damaged=True)
    why = _not_what_it_says(entry, record)
    if why is not None:
        return Refused(entry.name, why, damaged=True)
    return _no_use_for(entry, record)


def _no_use_for(entry: Entry, record: Record) -> Refused | None:
    language: Language = "c" if record.recipe.language == "c" else "c++"
    here = recipe_here(language, record.recipe.flags)
    if here is None:
        return Refused(entry.name, f"no {language} compiler was found here, and kernels are looked up by its version")
    why = misfit(record, here)
    if why is None and here.key(entry.parts["text"].decode()) != _key_in(entry.name):
        why = "it was built from another recipe"
    return None if why is None else Refused(entry.name, why)


def place(entry: Entry, folder: Path) -> bool:
    """Into the cache, the shared object last. Raises CacheError."""
    built = folder / _FOLDER / f"{entry.name}.so"
    if is_own_file(built):
        return False
    record = read_record(entry.parts["record"])
    assert record is not None, "checked before"
    publish(built.with_suffix(SUFFIXES[record.recipe.language]), entry.parts["text"])
    publish(record_path(built), entry.parts["record"])
    publish(built, entry.parts["so"])
    return True


def _not_what_it_says(entry: Entry, record: Record) -> str | None:
    """Where its name is not the key of its text and record, or the machine code is not the one that was built."""
    try:
        text = entry.parts["text"].decode()
    except UnicodeDecodeError:
        return "its text is none"
    if record.recipe.key(text) != _key_in(entry.name):
        return "its name is not the key of its text"
    if hashlib.sha256(entry.parts["so"]).hexdigest() != record.sha256:
        return "its machine code is not the one that was built"
    return None


def _key_in(name: str) -> str:
    return name.rpartition("-")[2]
