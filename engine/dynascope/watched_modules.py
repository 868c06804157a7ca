"""Modules of libraries that a program calls itself: `model(x)` of an `nn.Sequential`, of a transformers model. Or has a library call.

In a program that asks for no compilation the functions of its own files are found by their code (`watching.py`). A module whose
`forward` is a library's is found where one of those files calls it, and is compiled as `model.compile()` does it. Not where the
calling function is compiled itself: there it is a part of that, or what is left of it for a reason. One without parameters is
compiled when it is called again: `nn.Softmax(-1)(x)` makes another one at each call.

    model(x)              model is compiled
    Trainer(model).fit()  a library's loop calls model: it is compiled as well, the outermost module only
    Net(8)                what a library calls in `__init__` is a trial of sizes

Where torch itself is what calls (`functional_call`, a wrapper of processes) it is for a purpose of torch's: the module has other
parameters then, or is a part of another one.
"""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from dynascope.watched_calls import is_called_by_loader, takes_tensors

MOST_CALLS = 1000
"""After so many calls of modules one after the other of which none was compiled, no more are looked at."""
MOST_AT_A_PLACE = 8
"""Modules that one call in the program's text has compiled. Where it calls a new copy in each turn, the others run as they are."""
MODULES = "torch.nn.modules.module"
"""Whose frames stand between a module and what another one's `forward` calls."""


class CallsOfModules:
    """Called before `torch.nn.Module.__call__` runs, in place of a compilation of that: it goes on as it is written, and asks the
    module for what it was compiled to."""

    def __init__(
        self, is_asking: Callable[[types.CodeType], bool], is_own: Callable[[types.CodeType], bool], compile: Callable[[Any], bool]
    ) -> None:
        """`is_asking(code)`: of the caller; `is_own(code)`: of the module's `forward`; `compile(module)`: False if it was not."""
        self.is_asking, self.is_own, self.compile = is_asking, is_own, compile
        self.calls = 0
        self.places: Counter[tuple[types.CodeType, int]] = Counter()
        self.called: dict[int, weakref.ref] = {}
        """By identity: classes may have an equality of their own."""

    def __call__(self, table: Any, function: Callable, values: Any) -> None:
        self.calls += 1
        if self.calls >= MOST_CALLS:
            table.give_up()
        import torch

        caller, module = sys._getframe(1), values.locals.get("self")
        if caller is None or not isinstance(module, torch.nn.Module) or not self._is_asked(caller):
            return
        if vars(module).get("_compiled_call_impl") is not None or not self._is_of_library(type(module)):
            return
        if not takes_tensors(values) or is_called_by_loader():
            return
        if next(module.parameters(), None) is None and self._is_first_call(module):
            return
        place = caller.f_code, caller.f_lasti
        if self.places[place] < MOST_AT_A_PLACE and self.compile(module):
            self.places[place] += 1
            self.calls = 0

    def _is_asked(self, caller: types.FrameType) -> bool:
        """Whether the program's code calls the module, itself or through a library that is no module and makes none."""
        if self.is_own(caller.f_code):
            return self.is_asking(caller.f_code)
        if _package(caller) == "torch":
            return False
        frame: types.FrameType | None = caller
        while frame is not None and not self.is_own(frame.f_code):
            if frame.f_code.co_name == "__init__" or _package(frame) == "dynascope" or frame.f_globals.get("__name__") == MODULES:
                return False
            frame = frame.f_back
        return frame is not None and self.is_asking(frame.f_code)

    def _is_of_library(self, cls: type) -> bool:
        """Whether `forward` is a library's function. What a scripted module has there is asked of the class by nobody."""
        forward = inspect.getattr_static(cls, "forward")
        return isinstance(forward, types.FunctionType) and not self.is_own(forward.__code__)

    def _is_first_call(self, module: Any) -> bool:
        place = id(module)
        if place in self.called:
            return False
        self.called[place] = weakref.ref(module, lambda _: self.called.pop(place, None))
        return True


def _package(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]
