"""What a person who edits is told that is an error: the call of the last run would end there."""

from __future__ import annotations

from typing import ClassVar

from dynascope.capture.reasons import ProgramRaises, TorchCallFails
from dynascope.dataclass import dataclass


@dataclass(frozen=True)
class CallFailsAsEdited(TorchCallFails):
    severity: ClassVar[str] = "error"

    def remedy(self) -> str:
        return "So it is with the arguments of the last run; plain PyTorch raises the same error."


@dataclass(frozen=True)
class RaisesAsEdited(ProgramRaises):
    severity: ClassVar[str] = "error"

    def message(self) -> str:
        said = f"{self.exception}: {self.words.rstrip('.')}" if self.words else self.exception
        return f"`{self.what()}` raises {said}."

    def remedy(self) -> str:
        return "So it is with the arguments of the last run; plain Python raises the same error."
