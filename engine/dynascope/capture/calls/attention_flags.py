"""Which kernels attention may use: set inside the program, it is followed, as grad mode is; what it was before is guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.torch_state import change
from dynascope.capture.values import NONE, Value
from dynascope.meta_kernels.attention_flags import GETTER_OF

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def follow(setter: Any, getter: Any) -> None:
    @meaning(setter)
    def set_flag(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        wanted, before = bool(machine.object_of(arguments[0])), getter()
        machine.guards.follow_state(getter)
        if wanted != before:
            change(machine, setter, (wanted,), lambda: setter(before))
        return NONE


for setter, getter in GETTER_OF.items():
    follow(setter, getter)
