"""Triton kernels of a cache folder as entries, and back.

    entries, refused = collect(paths)
    check(entry, Here("3.6.0", {90}))         None where a GPU of this machine runs it
    place(entry, folder)
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.kernel_archive.entry import Entry, Refused
from dynascope.native.cache import is_own_file, publish
from dynascope.runtime.cubins import FORMAT, KernelError, key_of_identity, text_file, triton_version
from dynascope.runtime.cubins import place as place_of

_TYPES: dict[str, type] = {
    "name": str, "shared": int, "threads": int, "extra_parameters": int, "path": str, "identity": str, "digest": str,
}  # fmt: skip
_KEY = re.compile(r"[0-9a-f]{32}")
_WORD = re.compile(r"[A-Za-z_]\w{0,199}")


@dataclass(frozen=True, slots=True)
class Here:
    """What decides whether a GPU kernel is of use: Triton's version, and the compute capabilities of this machine's GPUs (90)."""

    triton: str | None
    capabilities: Set[int]


def here() -> Here:
    """Imports torch and Triton."""
    try:
        triton = triton_version()
    except KernelError:
        triton = None
    if importlib.util.find_spec("torch") is None:
        return Here(triton, frozenset())
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    pairs = [torch.cuda.get_device_capability(number) for number in range(count)]
    return Here(triton, frozenset(10 * major + minor for major, minor in pairs))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "triton").glob("[0-9a-f][0-9a-f]/*.json") if is_own_file(path))


def collect(paths: Iterable[Path]) -> tuple[list[Entry], list[Refused]]:
    """Of the files of facts in the cache."""
    read = [_collected(path) for path in paths]
    return [each for each in read if isinstance(each, Entry)], [each for each in read if isinstance(each, Refused)]


def _collected(path: Path) -> Entry | Refused:
    facts = _facts(path)
    if facts is None:
        return Refused(path.stem, "its facts are of another version")
    try:
        entry = Entry("gpu", path.stem, {
            "cubin": path.with_suffix(".cubin").read_bytes(),
            "facts": json.dumps({**facts, "path": ""}).encode(),  # where it lies here is nobody else's business
            "text": Path(facts["path"]).read_bytes(),
        })  # fmt: skip
    except OSError as error:
        return Refused(path.stem, f"a part of it is no longer there ({error})")
    why = _not_what_it_says(entry, facts)
    return entry if why is None else Refused(path.stem, why, damaged=True)


def _facts(path: Path) -> dict[str, Any] | None:
    try:
        return _read_facts(path.read_bytes())
    except OSError:
        return None


def _read_facts(text: bytes) -> dict[str, Any] | None:
    try:
        facts = json.loads(text)
    except ValueError:
        return None
    if not isinstance(facts, dict) or facts.keys() != _TYPES.keys():
        return None
    right = all(type(facts[name]) is kind for name, kind in _TYPES.items())
    return facts if right and _WORD.fullmatch(facts["name"]) else None


def check(entry: Entry, here: Here) -> Refused | None:
    """Why this machine has no use for it."""
    facts = _read_facts(entry.parts["facts"])
    if facts is None:
        return Refused(entry.name, "its facts are of another version")
    why = _not_what_it_says(entry, facts)
    if why is not None:
        return Refused(entry.name, why, damaged=True)
    why = _misfit(facts["identity"], here)
    return None if why is None else Refused(entry.name, f"{facts['name']}: {why}")


def _not_what_it_says(entry: Entry, facts: dict[str, Any]) -> str | None:
    if not _KEY.fullmatch(entry.name) or key_of_identity(facts["identity"]) != entry.name:
        return "its name is not the key of what it was built from"
    if hashlib.sha256(entry.parts["cubin"]).hexdigest() != facts["digest"]:
        return "its machine code is not the one that was built"
    return None


def _misfit(identity: str, here: Here) -> str | None:
    try:
        form, triton, capability, *_ = ast.literal_eval(identity)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return "what it was built from cannot be read"
    if form != FORMAT:
        return "it was kept by another version of Dynascope"
    if triton != here.triton:
        return f"it was built by Triton {triton}, and here is {here.triton or 'none'}"
    if capability not in here.capabilities:
        found = ", ".join(f"sm_{number}" for number in sorted(here.capabilities)) or "no GPU"
        return f"it is for sm_{capability}, and here is {found}"
    return None


def place(entry: Entry, folder: Path) -> bool:
    """Into the cache, the facts last. Raises CacheError."""
    facts_path = place_of(folder, entry.name, ".json")
    if is_own_file(facts_path) and is_own_file(facts_path.with_suffix(".cubin")):
        return False
    facts = _read_facts(entry.parts["facts"])
    assert facts is not None, "checked before"
    text = text_file(folder, facts["name"], entry.parts["text"])
    publish(text, entry.parts["text"])
    publish(place_of(folder, entry.name, ".cubin"), entry.parts["cubin"])
    publish(facts_path, json.dumps({**facts, "path": str(text)}).encode())
    return True
