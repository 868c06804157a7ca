"""Reasons that concern a whole compilation rather than one stage of it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from dynascope.report.reason import Reason


@dataclass(frozen=True)
class EngineError(Reason):
    code = "engine-error"
    severity = "error"
    stage: str
    function: str
    exception: str
    place: str

    @classmethod
    def of(cls, stage: str, function: str, error: Exception) -> EngineError:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        return cls(stage, function, f"{type(error).__name__}: {error}", place)

    def message(self) -> str:
        return f"Dynascope failed in its stage {self.stage} on `{self.function}` ({self.exception}, at {self.place})."

    def remedy(self) -> str:
        return (
            "It runs uncompiled, with the right result. Please report this defect with the program; "
            "`@dynascope.disable` keeps the function out."
        )


@dataclass(frozen=True)
class BackendFailed(Reason):
    code = "backend-failed"
    severity = "error"
    backend: str
    exception: str
    text: str

    def message(self) -> str:
        return f"The backend `{self.backend}` raised {self.exception} on a captured graph: {self.text.strip()}"

    def remedy(self) -> str:
        return "The graph runs operator by operator instead. Mend the backend, or leave out `backend=` for ours."


@dataclass(frozen=True)
class GuardFailed(Reason):
    code = "recompiled"
    severity = "information"
    failure: str

    def message(self) -> str:
        return self.failure

    def remedy(self) -> str:
        return (
            "If it changes at every call, make it a tensor or a plain number argument, or keep it the same; "
            "a few values cost a few compilations, once."
        )


@dataclass(frozen=True)
class RecompileLimit(Reason):
    code = "recompile-limit"
    function: str
    entries: int
    latest: str

    def message(self) -> str:
        return (
            f"`{self.function}` was compiled {self.entries} times and still meets new cases; "
            f"from now on those run uncompiled. The latest: {self.latest}"
        )

    def remedy(self) -> str:
        return (
            "Keep what changes out of the function (compute it before the call), pass it as a tensor, "
            "or raise `dynascope.config.recompile_limit`."
        )
