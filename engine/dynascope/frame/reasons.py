"""Why a function cannot be entered in the middle."""

from __future__ import annotations

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason


@dataclass(frozen=True, slots=True)
class ResumeInGenerator(Reason):
    """The frame of a generator or coroutine is entered again by its owner; it cannot be continued elsewhere."""

    code = "break-in-generator"
    function: str

    def message(self) -> str:
        return f"`{self.function}` is a generator or coroutine: it cannot be split where a step needs plain Python."

    def remedy(self) -> str:
        return f"Move the work between two yields of `{self.function}` into a plain function; that one can be compiled."


@dataclass(frozen=True, slots=True)
class ResumeInClassBody(Reason):
    """Class bodies and modules keep their names in a dictionary, not in slots."""

    code = "break-in-class-body"
    function: str

    def message(self) -> str:
        return f"`{self.function}` is the body of a class or module, which cannot be split."

    def remedy(self) -> str:
        return f"Move the work out of the body of `{self.function}` into a function."
