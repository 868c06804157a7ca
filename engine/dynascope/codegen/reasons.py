"""Why an operation has no kernel of ours."""

from __future__ import annotations

from typing import ClassVar

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason, Severity


@dataclass(frozen=True)
class LibraryCall(Reason):
    """The operator is called as it is."""

    code: ClassVar[str] = "library-call"
    severity: ClassVar[Severity] = "hint"
    operator: str
    why: str

    def message(self) -> str:
        return f"{self.operator} runs as a library call: {self.why}."

    def remedy(self) -> str:
        return f"Nothing to change unless {self.operator} is a small part of the work around it."


class EmitError(Exception):
    """A group has no kernel. `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.message())
        self.reason = reason
