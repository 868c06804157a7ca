"""Why a graph runs otherwise than as generated kernels."""

from __future__ import annotations

from typing import ClassVar

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason, Severity


@dataclass(frozen=True)
class RunsAsOperators(Reason):
    """The kernels could not be built, so each ATen operator is called instead. The same words for every graph."""

    code: ClassVar[str] = "kernels-not-built"
    severity: ClassVar[Severity] = "warning"
    cause: str
    cause_remedy: str

    def message(self) -> str:
        return f"Generated kernels could not be built, so their operators run one by one. {self.cause}"

    def remedy(self) -> str:
        return self.cause_remedy


@dataclass(frozen=True)
class GenerationFailed(Reason):
    """A defect of ours while making kernels; the graph runs as its operators."""

    code: ClassVar[str] = "kernel-generation-failed"
    severity: ClassVar[Severity] = "warning"
    stage: str
    error: str

    def message(self) -> str:
        return f"Making kernels stopped in stage {self.stage} ({self.error}), so the operators run one by one."

    def remedy(self) -> str:
        return f"This is a defect of dynascope's; please report it with the line above and the name of the stage, {self.stage}."


@dataclass(frozen=True)
class ModeNotHonoured(Reason):
    """Something that a mode, or another setting, asks for is not done for this graph. `setting` is as it is written."""

    code: ClassVar[str] = "mode-not-honoured"
    severity: ClassVar[Severity] = "information"
    setting: str
    missing: str
    cause: str

    def message(self) -> str:
        return f"{self.setting} is honoured in part only: {self.missing}, because {self.cause}."

    def remedy(self) -> str:
        return "Nothing has to be done: the graph runs as by default."
