"""Why CUDA kernels could not be built or launched."""

from __future__ import annotations

from typing import ClassVar

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason, Severity


@dataclass(frozen=True)
class TritonMissing(Reason):
    """No Triton, or one that cannot be imported."""

    code: ClassVar[str] = "triton-missing"
    cause: str

    def message(self) -> str:
        return f"Triton cannot be imported ({self.cause}), so nothing is compiled for the GPU."

    def remedy(self) -> str:
        return "Install the Triton that your torch was made for: `pip install triton` (3.6 for torch 2.11)."


@dataclass(frozen=True)
class TritonRefused(Reason):
    """Triton's compiler refused a kernel of ours: a defect of Dynascope's, whatever the program."""

    code: ClassVar[str] = "triton-refused"
    severity: ClassVar[Severity] = "error"
    kernel: str
    words: str

    def message(self) -> str:
        return f"Triton could not compile `{self.kernel}`:\n{self.words}"

    def remedy(self) -> str:
        return "The operations of this kernel run in eager mode. Please report the kernel's text as a bug of Dynascope."


@dataclass(frozen=True)
class LauncherMissing(Reason):
    """The C launcher is not there; Triton's own launcher stands in."""

    code: ClassVar[str] = "launcher-missing"
    cause: str

    def message(self) -> str:
        return f"The fast launcher could not be used ({self.cause}); each launch costs some 15 microseconds more."

    def remedy(self) -> str:
        return "Make sure a C compiler and Python's headers are installed (`apt-get install gcc python3-dev`)."
