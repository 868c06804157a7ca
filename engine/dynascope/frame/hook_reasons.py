"""Why calls go through the slow dispatcher instead of the C hook."""

from __future__ import annotations

from typing import ClassVar

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason, Severity


@dataclass(frozen=True)
class HookNotBuilt(Reason):
    """The C hook could not be built. `cause` and `cure` are the toolchain's."""

    code: ClassVar[str] = "hook-not-built"
    # Kernels that were not built for want of the same compiler are a warning; this costs microseconds.
    severity: ClassVar[Severity] = "information"
    cause: str
    cure: str

    def message(self) -> str:
        return f"The C frame hook could not be built, so each call of a compiled function is slower. {self.cause}"

    def remedy(self) -> str:
        return self.cure


@dataclass(frozen=True)
class PythonHeadersMissing(Reason):
    """There is a compiler, but the headers of this interpreter are not installed."""

    code: ClassVar[str] = "python-headers-missing"
    folder: str
    version: str

    def message(self) -> str:
        return (
            f"The C headers of Python {self.version} are not at {self.folder}, so the C part of the frame hook "
            "could not be built and each call of a compiled function is slower."
        )

    def remedy(self) -> str:
        return f"Install them (`apt-get install python{self.version}-dev`, `dnf install python{self.version}-devel`)."


@dataclass(frozen=True)
class FunctionsNotFound(Reason):
    """The program asks for no compilation, and frames cannot be watched. `cause` and `cure` are those of the missing hook."""

    code: ClassVar[str] = "functions-not-found"
    cause: str
    cure: str

    def message(self) -> str:
        return f"The program asks for no compilation, and without the frame hook its functions are not found. {self.cause}"

    def remedy(self) -> str:
        return f"Write `@torch.compile` above a function, or `torch.compile(model)`: that needs no hook. {self.cure}"


@dataclass(frozen=True)
class HookUnfit(Reason):
    """The hook was built and does not work in this interpreter, or nobody knows whether it would."""

    code: ClassVar[str] = "hook-unfit"
    severity: ClassVar[Severity] = "information"
    python: str
    cause: str

    def message(self) -> str:
        return f"The frame hook does not work in this interpreter (Python {self.python}): {self.cause}."

    def remedy(self) -> str:
        return "Use CPython 3.11 to 3.14 with the GIL; until then compiled functions are called more slowly."


@dataclass(frozen=True)
class FollowedByDebugger(Reason):
    """A debugger or another tracer looked on."""

    code: ClassVar[str] = "followed-by-debugger"
    severity: ClassVar[Severity] = "information"
    calls: int

    def message(self) -> str:
        counted = "1 call" if self.calls == 1 else f"{self.calls} calls"
        return f"A debugger or tracer follows the program: {counted} of functions to be compiled ran as written, so that it stops there."

    def remedy(self) -> str:
        return "Run it without a debugger (or coverage) to see what is compiled."


@dataclass(frozen=True)
class ForeignEvaluator(Reason):
    """Another user of PEP 523 is active in this interpreter."""

    code: ClassVar[str] = "foreign-frame-evaluator"
    severity: ClassVar[Severity] = "information"

    def message(self) -> str:
        return "Another tool (torch.compile, or a debugger) evaluates Python frames in this process too."

    def remedy(self) -> str:
        return "Both work while they are entered and left in turn; compile a function with one of them only."
