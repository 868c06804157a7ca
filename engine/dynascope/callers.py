"""Where in the user's program the engine was asked for something: read off Python's own stack.

calling_stack()   ->  (UserFrame("<module>", train.py:53), UserFrame("train_one_epoch", train.py:23))
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType

from dynascope.report.span import Span, UserFrame, UserStack
from dynascope.report.user_files import is_user_file

_moved: list[Callable[[Span], Span]] = [lambda span: span]
_warned: dict = {}
OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
AskedAt = Callable[[], Span | None]
DEEPEST = 12
"""Frames kept, the innermost ones: what called the call is soon of no interest."""


def calling_stack(function: str = "") -> UserStack:
    """The user's frames, innermost last. Those of `function` itself, which is being compiled, are left out."""
    frames: list[UserFrame] = []
    frame = sys._getframe(1)
    while frame is not None and len(frames) < DEEPEST:
        code = frame.f_code
        if is_user_file(code.co_filename) and not code.co_filename.startswith(OWN_FOLDER):
            if code.co_qualname != function:
                frames.append(UserFrame(code.co_qualname, _present_span(code, frame.f_lasti)))
        frame = frame.f_back
    return tuple(reversed(frames))


def is_called_by_program() -> bool:
    """Whether it is the program's own expression that calls what is compiled, not a library's loop that the program calls: what that
    is given says nothing of the call. Through torch's wrappers arguments go as they are."""
    frame = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(OWN_FOLDER) or _is_torchs(frame)):
        frame = frame.f_back
    return frame is not None and is_user_file(frame.f_code.co_filename)


def _is_torchs(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "torch"


def calling_place() -> Span | None:
    stack = calling_stack()
    return stack[-1].span if stack else None


def warn(message: str) -> None:
    """At the line of the program's that led here, where one did."""
    place = calling_place()
    if place is None:
        warnings.warn(message, stacklevel=3)
    else:
        warnings.warn_explicit(message, UserWarning, place.file, place.line, registry=_warned)


def _present_span(code, instruction: int) -> Span:
    line, end_line, column, end_column = list(code.co_positions())[instruction // 2]
    return _moved[0](Span(code.co_filename, line or code.co_firstlineno, column, end_line, end_column))


def read_instead(moved: Callable[[Span], Span]) -> None:
    """From now on, in this process, places are told as `moved` says: of a program whose text was edited while it runs."""
    _moved[0] = moved
