"""How a step of the interpreter ends other than with a value.

`Break` says that the step cannot be captured, and why. `Raised` is the user program's own exception on its way to the
user program's handler. None leaves `capture`.

`Break` is no `Exception`: code of ours that tries something and says `except Exception` (an operator on meta tensors, a question
about a size) would take it for a failure of what it tried, and go on as if the step could be captured. Who means it, names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope.report.reason import Reason

if TYPE_CHECKING:
    from dynascope.capture.values import Value


class Break(BaseException):
    """The current instruction must be run by Python."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


class Refusal(Exception):
    """The region cannot be captured at all, not even up to a break."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


class CaptureAgain(BaseException):
    """What the end of a capture shows asks for another one, with these options."""

    def __init__(self, **options: Any) -> None:
        self.options = options


class Raised(Exception):
    """The program raised `value`, an instance value of an exception class. What a handler passes on, `raise` alone and the end of a
    `finally` do, is `again` on its way: its traceback has the place already."""

    def __init__(self, value: Value, again: bool = False) -> None:
        self.value, self.again = value, again
