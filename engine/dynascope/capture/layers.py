"""Which layer of a model a step belongs to, and the line that built it: what is shown when the step lies in library code.

note_registrations()                   from now on it is known which line put a module into another one
layer_of(frames)                       -> Layer("self.body[0]", "Linear", Span("model.py", 12, ...)) or None
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.registry import meaning
from dynascope.capture.places import is_own
from dynascope.capture.values import NONE, Value
from dynascope.report.span import Layer, Span

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame
    from dynascope.capture.machine import Machine

Registration = tuple[weakref.ref, CodeType, int]
_registrations: dict[int, Registration] = {}
"""By the identity of a module: a weak reference to it, and the instruction of the user's that registered it last."""


@cache
def note_registrations() -> None:
    """Torch calls back for every module that becomes part of another; the newest user's frame then is the one that built it."""
    torch.nn.modules.module.register_module_module_registration_hook(_note)


def _note(parent: Any, name: str, child: Any) -> None:
    frame = sys._getframe(1)
    while frame is not None and not is_own(frame.f_globals):
        frame = frame.f_back
    if frame is not None and isinstance(child, torch.nn.Module):
        _registrations[id(child)] = (weakref.ref(child), frame.f_code, frame.f_lasti)


@meaning(_note)
def note_nothing(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Of a module that is made inside the report has the calls."""
    return NONE


def renew_places(new_code: Callable[[CodeType], CodeType | None]) -> None:
    """The lines of a text that was edited since, where the function that built a layer is still the same."""
    for key, (module, code, instruction) in list(_registrations.items()):
        new = new_code(code)
        if new is not None and new.co_code == code.co_code:
            _registrations[key] = module, new, instruction


def built_at(module: torch.nn.Module) -> Span | None:
    """The user's expression that made the module part of another; None for one that no user's code registered."""
    known = _registrations.get(id(module))
    if known is None or known[0]() is not module:
        return None
    _, code, instruction = known
    line, end_line, column, end_column = list(code.co_positions())[instruction // 2]
    return Span(code.co_filename, line or code.co_firstlineno, column, end_line, end_column)


def layer_of(frames: Iterable[Frame]) -> Layer | None:
    """The innermost module from outside whose method runs in these frames (innermost first)."""
    for frame in frames:
        if frame.layer is None:
            frame.layer = _layer_of_frame(frame) or False
        if frame.layer:
            return frame.layer
    return None


def _layer_of_frame(frame: Frame) -> Layer | None:
    owner = frame.slots.get("self")
    module, source = getattr(owner, "object", None), getattr(owner, "source", None)
    if source is None or not isinstance(module, torch.nn.Module):
        return None
    return Layer(source.expression(), type(module).__name__, built_at(module))
