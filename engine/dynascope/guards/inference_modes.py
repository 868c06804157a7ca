"""Inference modes that compiled code has entered and the program goes on in, after a break inside `with torch.inference_mode():`.

    mode = entered(settings)        what `torch.inference_mode` holds, with the settings of torch's that it will put back
    around(mode)                    Around(records=True, ...); None of one that plain Python entered
    leave(mode)

Only the mode itself knows what it will put back, and tells nobody: so who compiles what comes after its `with` asks here.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.guards.guard import Predicate

Mode = torch._C._InferenceMode
"""Made, it is entered."""


@dataclass(frozen=True, slots=True)
class Around:
    """How it is outside of a mode: whether gradients are on, another inference mode, autocast."""

    records: bool
    in_inference: bool
    autocast: tuple[bool, ...]

    @classmethod
    def now(cls) -> Around:
        autocast = tuple(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast)


_entered: weakref.WeakKeyDictionary[Any, Around] = weakref.WeakKeyDictionary()


def entered(settings: Iterable[tuple[Callable[..., Any], tuple]]) -> Any:
    for function, arguments in settings:
        function(*arguments)
    now = Around.now()
    mode = Mode(True)
    _entered[mode] = now
    return mode


def leave(mode: Any) -> None:
    _entered.pop(mode, None)
    mode.__exit__(None, None, None)


def around(mode: Any) -> Around | None:
    return _entered.get(mode) if type(mode) is Mode else None


@dataclass(frozen=True)
class EnteredIn(Predicate):
    """The inference mode was entered by compiled code, where this was so."""

    around: Around

    def holds(self, mode: Any) -> bool:
        return around(mode) == self.around

    def check(self) -> str:
        return f"was entered with {_words(self.around)}"

    def failure(self, expression: str, mode: Any) -> str:
        now = around(mode)
        if now is None:
            return f"{expression} was entered by plain Python, and by compiled code before"
        return f"{expression} was entered with {_words(now)}, and with {_words(self.around)} before"


def _words(around: Around) -> str:
    words = ["gradients on" if around.records else "gradients off"]
    words += ["inference mode"] if around.in_inference else []
    words += ["autocast"] if any(around.autocast) else []
    return " and ".join(words)
