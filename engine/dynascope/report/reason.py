"""Why something was not done: the base of every reason, and its explanation as plain data.

A reason is a frozen dataclass with the values of this very case as its fields. The class says the code and the words:

    @dataclass(frozen=True)
    class DataDependentBranch(Reason):
        code = "data-dependent-branch"
        condition: str

        def message(self): return f"`{self.condition}` needs the value of a tensor, known only when the program runs."
        def remedy(self): return "..."
"""

from __future__ import annotations

from typing import ClassVar, Literal

from dynascope.dataclass import dataclass
from dynascope.report.span import Span, UserStack

Severity = Literal["error", "warning", "information", "hint"]


class Reason:
    """Why a step was refused. Subclasses are frozen dataclasses; `code` names the cause and reads after "allow"."""

    code: ClassVar[str] = ""
    severity: ClassVar[Severity] = "warning"

    def message(self) -> str:
        """What happened, in the user's own expression. One or two sentences."""
        raise NotImplementedError

    def remedy(self) -> str:
        """What to do in this very case. Never empty, never canned."""
        raise NotImplementedError

    def explain(self, span: Span | None = None, stack: UserStack = ()) -> Explanation:
        return Explanation(self.code, self.severity, self.message(), self.remedy(), span, stack)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason at a place, as plain data: what happened, where, what to do. `stack` ends with the frame of `span`."""

    code: str
    severity: Severity
    message: str
    remedy: str
    span: Span | None = None
    stack: UserStack = ()
