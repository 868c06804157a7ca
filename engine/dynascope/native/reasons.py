"""Why native code could not be built or kept."""

from __future__ import annotations

from typing import ClassVar

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason, Severity

_INSTALL = (
    "Install one: `apt-get install gcc g++` (Debian, Ubuntu), `dnf install gcc gcc-c++` (Fedora), "
    "`xcode-select --install` (macOS)"
)


@dataclass(frozen=True)
class CompilerMissing(Reason):
    """No C or C++ compiler was found."""

    code: ClassVar[str] = "compiler-missing"
    language: str
    tried: tuple[str, ...]
    variable: str

    def message(self) -> str:
        language = {"c": "C", "c++": "C++"}[self.language]
        return f"No {language} compiler was found (tried {', '.join(self.tried)})."

    def remedy(self) -> str:
        return f"{_INSTALL}, or name yours in the environment variable {self.variable}."


@dataclass(frozen=True)
class CompilationFailed(Reason):
    """The compiler refused the text, or could not run. `words` are its own."""

    code: ClassVar[str] = "compilation-failed"
    severity: ClassVar[Severity] = "error"
    name: str
    command: str
    words: str

    def message(self) -> str:
        return f"The compiler could not build `{self.name}`:\n{self.words}"

    def remedy(self) -> str:
        return f"The program still runs, without this native code. To see the failure yourself, run `{self.command}`."


@dataclass(frozen=True)
class CompilerStuck(Reason):
    """The compiler did not end in time and was ended."""

    code: ClassVar[str] = "compiler-timeout"
    name: str
    seconds: float
    variable: str

    def message(self) -> str:
        return f"The compiler worked on `{self.name}` for {self.seconds:g} seconds without an end and was stopped."

    def remedy(self) -> str:
        return f"Give it longer with {self.variable}=<seconds>, or free the machine. The program runs uncompiled."


@dataclass(frozen=True)
class CacheUnusable(Reason):
    """The cache folder cannot be used, so that this process has a folder of its own, which ends with it."""

    code: ClassVar[str] = "cache-unusable"
    folder: str
    cause: str

    def message(self) -> str:
        return f"The cache folder {self.folder} cannot be used ({self.cause}); everything is built anew in each run."

    def remedy(self) -> str:
        return f"Make {self.folder} a folder that only you can write, or name another in DYNASCOPE_CACHE_DIR."


@dataclass(frozen=True)
class CacheWriteFailed(Reason):
    """A file could not be written into the cache: the disk or the quota is full, most often."""

    code: ClassVar[str] = "cache-write-failed"
    folder: str
    cause: str

    def message(self) -> str:
        return f"Nothing could be written into the cache folder {self.folder}: {self.cause}."

    def remedy(self) -> str:
        return (
            f"Free space there (`rm -r {self.folder}` loses nothing but the time to build again), "
            "or name a folder on another disk in DYNASCOPE_CACHE_DIR."
        )
