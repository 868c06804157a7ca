"""What a shared object was built from, kept beside it: whether it is right for another machine is decided by this.

    Recipe(language="c++", flags=("-O2", "-march=native"), arguments=(), compiler="g++ 12.2 ...", machine="x86_64", processor="...")
    recipe.key(source)               the name of the file: equal texts of equal recipes are one file
    misfit(recipe, here)             why what one recipe made is not what the other would make; None where it is

The record is JSON, `NAME-KEY.json` beside `NAME-KEY.so`. Nothing but an export reads it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from dynascope.dataclass import dataclass

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything but the text. `processor` is what it can do, and empty where the flags do not ask for it."""

    language: str
    flags: tuple[str, ...]
    arguments: tuple[str, ...]
    """Of the compiler's command, as in CXX="ccache g++"."""
    compiler: str
    """What it says of its version."""
    machine: str
    processor: str

    def key(self, source: str) -> str:
        parts = [without_comments(source), self.language, *self.flags, *self.arguments, self.compiler, self.machine]
        return digest("\0".join([*parts, self.processor] if self.is_native else parts))

    @property
    def is_native(self) -> bool:
        return is_native(self.flags)


@dataclass(frozen=True, slots=True)
class Record:
    """A recipe with what the key leaves out: the C library and the Python that it was built beside, and the finished file's hash."""

    recipe: Recipe
    c_library: str
    python: str
    sha256: str


_COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
"""A line that is a comment: in a kernel, the user's line, which moves when the file is edited."""


def without_comments(source: str) -> str:
    return _COMMENT.sub("", source)


def is_native(flags: Sequence[str]) -> bool:
    return any(flag.endswith("=native") for flag in flags)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@functools.lru_cache(maxsize=1)
def processor() -> str:
    """What the processor can do: a home folder is often shared by machines on which `native` means different things."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))}))


def c_library() -> str:
    """`glibc 2.36`; empty where the system has no name for it."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


def python() -> str:
    """What a file that includes Python's headers depends on besides their folder."""
    return str(sysconfig.get_config_var("SOABI"))


def record_path(built: Path) -> Path:
    return built.with_suffix(".json")


def record_of(recipe: Recipe, binary: bytes) -> bytes:
    facts = {**asdict(recipe), "format": FORMAT, "c_library": c_library(), "python": python()}
    return json.dumps({**facts, "sha256": hashlib.sha256(binary).hexdigest()}).encode()


def read_record(text: bytes) -> Record | None:
    """None for what is no record of this version of ours."""
    try:
        facts = json.loads(text)
    except ValueError:
        return None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        return None
    words = [*(field.name for field in fields(Recipe) if field.name not in ("flags", "arguments")), "c_library", "python", "sha256"]
    if not all(isinstance(facts.get(name), str) for name in words):
        return None
    if not (_is_words(facts.get("flags")) and _is_words(facts.get("arguments"))):
        return None
    recipe = Recipe(
        facts["language"], tuple(facts["flags"]), tuple(facts["arguments"]), facts["compiler"], facts["machine"], facts["processor"]
    )
    return Record(recipe, facts["c_library"], facts["python"], facts["sha256"])


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def misfit(record: Record, here: Recipe) -> str | None:
    """Why the file is not what this machine would build from the same text with the same flags (`here`); None where it is, and can be
    loaded."""
    made = record.recipe
    if made.machine != here.machine:
        return f"it is for {made.machine}, and this is {here.machine}"
    if made.compiler != here.compiler:
        return f"it was built by {_first_line(made.compiler)}, and the compiler here is {_first_line(here.compiler)}"
    if made.arguments != here.arguments:
        return f"it was built with {' '.join(made.arguments) or 'no arguments'} in the compiler's command"
    if made.is_native and made.processor != here.processor:
        return _other_processor(made.processor, here.processor)
    if _is_newer(record.c_library, c_library()):
        return f"it was built beside {record.c_library}, and here is {c_library() or 'another C library'}"
    return _other_headers(record)


def _other_headers(record: Record) -> str | None:
    included = [flag[2:] for flag in record.recipe.flags if flag.startswith("-I")]
    if not included:
        return None
    if record.python != python():
        return f"it is for the Python {record.python}, and this is {python()}"
    here = sysconfig.get_paths()["include"]
    return None if included == [here] else f"Python's headers lay in {', '.join(included)}, and are in {here} here"


def _other_processor(made: str, here: str) -> str:
    missing = sorted(set(made.split()) - set(here.split()))
    names = [_model(made), _model(here)]
    if names[0] != names[1]:
        return f"it is for the processor {names[0]}, and this is {names[1]}"
    return f"it is for a processor with other features ({', '.join(missing[:8]) or 'fewer'})"


def _model(processor_facts: str) -> str:
    models = [line.partition(":")[2].strip() for line in processor_facts.splitlines() if line.startswith("model name")]
    return models[0] if models else "without a name"


def _is_newer(made: str, here: str) -> bool:
    """Of another kind, or a later version: symbols may be missing."""
    name, _, version = made.partition(" ")
    own_name, _, own_version = here.partition(" ")
    return name != own_name or _numbers(version) > _numbers(own_version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0]
