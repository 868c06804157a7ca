"""Modules of libraries that a program calls itself: `model(x)` of an `nn.Sequential`, of a transformers model.

In a program that asks for no compilation the functions of its own files are found by their code (`watching.py`). A module whose
`forward` is a library's is found where one of those files calls it, and is compiled as `model.compile()` does it. Not where the
calling function is compiled itself: there it is a part of that, or what is left of it for a reason.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from dynascope.watched_calls import is_called_by_loader, takes_tensors

MOST_CALLS = 1000
"""After so many calls of modules one after the other of which none was compiled, no more are looked at."""


class CallsOfModules:
    """Called before `torch.nn.Module.__call__` runs, in place of a compilation of that: it goes on as it is written, and asks the
    module for what it was compiled to."""

    def __init__(
        self, is_asking: Callable[[types.CodeType], bool], is_own: Callable[[types.CodeType], bool], compile: Callable[[Any], bool]
    ) -> None:
        """`is_asking(code)`: of the caller; `is_own(code)`: of the module's `forward`; `compile(module)`: False if it was not."""
        self.is_asking, self.is_own, self.compile = is_asking, is_own, compile
        self.calls = 0

    def __call__(self, table: Any, function: Callable, values: Any) -> None:
        self.calls += 1
        if self.calls >= MOST_CALLS:
            table.give_up()
        module = values.locals["self"]
        forward = getattr(type(module).forward, "__code__", None)
        if module._compiled_call_impl is not None or forward is None or self.is_own(forward):
            return
        caller = sys._getframe(1)
        if caller is None or not self.is_asking(caller.f_code) or not takes_tensors(values) or is_called_by_loader():
            return
        if self.compile(module):
            self.calls = 0
