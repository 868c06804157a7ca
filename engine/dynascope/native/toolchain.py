"""C and C++ text to a shared object in the cache, once for each text.

    path = build_shared_object("int answer(void) { return 42; }", language="c", flags=("-O2",), name="answer")
    ctypes.CDLL(path).answer()

    begin_shared_object(the same)       the compiler starts now, and the caller goes on with something else

The file is named after the text, the flags and the compiler (and the processor where the flags ask for it), so a file
that exists is the right one. Of the processes of a host one builds a text and others wait for it (`building.py`); across hosts that
share a disk each works in a folder of its own and puts the finished file in its place in one step.
"""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from dynascope.dataclass import dataclass
from dynascope.native.building import alone_with
from dynascope.native.cache import (
    BEING_BUILT,
    CacheError,
    cache_folder,
    is_own_file,
    mark_used,
    publish,
    publish_file,
    write_failure,
)
from dynascope.native.forking import forgotten_in_children
from dynascope.native.reasons import CacheWriteFailed, CompilationFailed, CompilerMissing, CompilerStuck
from dynascope.native.recipes import Recipe, digest, is_native, processor, record_of, record_path
from dynascope.report.reason import Reason

Language = Literal["c", "c++"]

TIMEOUT_VARIABLE = "DYNASCOPE_COMPILER_TIMEOUT"
_DEFAULT_TIMEOUT = 300.0
_begun: dict[tuple[str, ...], Future[Path]] = {}
forgotten_in_children(_begun.clear)


class ToolchainError(Exception):
    """Native code could not be built. `reason` has the compiler's words and the remedy."""

    def __init__(self, reason: Reason):
        super().__init__(f"{reason.message()}\n{reason.remedy()}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that runs. `command` may carry arguments of its own, as in CC="ccache gcc"."""

    command: tuple[str, ...]
    version: str

    @property
    def title(self) -> str:
        """What it calls itself, in one line."""
        return self.version.splitlines()[0]


@dataclass(frozen=True, slots=True)
class _Dialect:
    variable: str
    commands: tuple[str, ...]
    suffix: str


_DIALECTS: dict[str, _Dialect] = {
    "c": _Dialect("CC", ("cc", "gcc", "clang"), ".c"),
    "c++": _Dialect("CXX", ("c++", "g++", "clang++"), ".cpp"),
}


def find_compiler(language: Language = "c") -> Compiler | None:
    """The compiler that CC (or CXX) names, else the first of the usual ones that answers; None where there is none."""
    for command in _candidates(language):
        compiler = _probe(command, os.environ.get("PATH", ""))
        if compiler is not None:
            return compiler
    return None


def begin_shared_object(source: str, *, language: Language, flags: Sequence[str], name: str) -> None:
    """Start what `build_shared_object` with the same arguments will wait for; it also raises what goes wrong."""
    key = (source, language, *flags)
    if key not in _begun:
        worker = ThreadPoolExecutor(1)
        _begun[key] = worker.submit(_build_or_find, source, language, flags, name)
        worker.shutdown(wait=False)


def build_shared_object(
    source: str, *, language: Language, flags: Sequence[str], name: str, folder: Path | None = None
) -> Path:
    """The path of the shared object of this text, built now if nobody has (in the cache, or in `folder`). Raises ToolchainError."""
    begun = _begun.pop((source, language, *flags), None)
    return _build_or_find(source, language, flags, name, folder) if begun is None else begun.result()


def _build_or_find(
    source: str, language: Language, flags: Sequence[str], name: str, folder: Path | None = None
) -> Path:
    compiler = find_compiler(language)
    if compiler is None:
        tried = tuple(shlex.join(command) for command in _candidates(language))
        raise ToolchainError(CompilerMissing(language, tried, _DIALECTS[language].variable))
    recipe = _recipe(language, flags, compiler)
    path = (folder or cache_folder()) / "native" / f"{name}-{recipe.key(source)}.so"
    if is_own_file(path):
        mark_used(path)
        return path
    try:
        with alone_with(path):
            return path if is_own_file(path) else _build(source, recipe, compiler, path, name)
    except CacheError as error:
        raise ToolchainError(error.reason) from error


def _candidates(language: Language) -> list[tuple[str, ...]]:
    dialect = _DIALECTS[language]
    named = shlex.split(os.environ.get(dialect.variable, ""))
    return [tuple(named)] if named else [(command,) for command in dialect.commands]


@functools.lru_cache(maxsize=16)
def _probe(command: tuple[str, ...], search_path: str) -> Compiler | None:
    """Ask a command for its version. The answer is kept on disk too: a subprocess would double a warm start."""
    program = shutil.which(command[0], path=search_path)
    if program is None:
        return None
    facts = os.stat(os.path.realpath(program))
    identity = repr((command, os.path.realpath(program), facts.st_mtime_ns, facts.st_size))
    note = cache_folder() / "compilers" / f"{digest(identity)}.txt"
    version = _read(note) or _ask_version(command)
    if not version:
        return None
    _remember(note, version)
    return Compiler((program, *command[1:]), version)


def _ask_version(command: tuple[str, ...]) -> str:
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=20, env=_environment())
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _read(path: Path) -> str:
    if not is_own_file(path):
        return ""
    try:
        return path.read_text()
    except OSError:
        return ""


def _remember(note: Path, version: str) -> None:
    if is_own_file(note):
        return
    try:
        publish(note, version.encode())
    except CacheError:
        # Costs a subprocess next time; the build that follows reports the full disk.
        return


def recipe_here(language: Language, flags: Sequence[str]) -> Recipe | None:
    """What this machine would build with; None without a compiler."""
    compiler = find_compiler(language)
    return None if compiler is None else _recipe(language, flags, compiler)


def _recipe(language: Language, flags: Sequence[str], compiler: Compiler) -> Recipe:
    facts = processor() if is_native(flags) else ""
    return Recipe(language, tuple(flags), compiler.command[1:], compiler.version, platform.machine(), facts)


def _build(source: str, recipe: Recipe, compiler: Compiler, path: Path, name: str) -> Path:
    text_path = path.with_suffix(_DIALECTS[recipe.language].suffix)
    publish(text_path, source.encode())
    workplace = _make_workplace(path.parent)
    try:
        built = workplace / path.name
        places = ["-o", str(built), str(text_path)]
        _run([*compiler.command, "-shared", "-fPIC", *_before(recipe.flags), *places, *_after(recipe.flags)], name)
        publish(record_path(path), record_of(recipe, built.read_bytes()))
        return publish_file(built, path)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _before(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if not flag.startswith("-l")]


def _after(flags: Sequence[str]) -> list[str]:
    """Libraries follow the text that needs them, or the linker drops them."""
    return [flag for flag in flags if flag.startswith("-l")]


def _make_workplace(parent: Path) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=BEING_BUILT, dir=parent))
    except OSError as error:
        raise write_failure(parent, error) from error


def _run(command: list[str], name: str) -> None:
    seconds = float(os.environ.get(TIMEOUT_VARIABLE, _DEFAULT_TIMEOUT))
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=_environment())
    except subprocess.TimeoutExpired:
        raise ToolchainError(CompilerStuck(name, seconds, TIMEOUT_VARIABLE)) from None
    except OSError as error:
        raise ToolchainError(CompilationFailed(name, shlex.join(command), str(error))) from error
    if answer.returncode == 0:
        return
    words = (answer.stderr or answer.stdout or f"exit status {answer.returncode}").strip()
    if "No space left on device" in words or "Disk quota exceeded" in words:
        raise ToolchainError(CacheWriteFailed(str(cache_folder()), words.splitlines()[-1]))
    raise ToolchainError(CompilationFailed(name, shlex.join(command), words))


def _environment() -> dict[str, str]:
    """The compiler speaks English, so that its words can be read here and shown to anybody who may help."""
    return {**os.environ, "LC_ALL": "C"}
