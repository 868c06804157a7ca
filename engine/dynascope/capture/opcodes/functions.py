"""Making functions."""

from __future__ import annotations

from typing import Any

from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine, operation
from dynascope.capture.values import DictValue, FunctionValue, Value
from dynascope.frame.instructions import Instruction


@operation("MAKE_FUNCTION")
def make_function(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    code = frame.pop().value
    function = FunctionValue(code, frame.globals, code.co_qualname)
    for name in reversed(instruction.value or ()):
        set_attribute(machine, function, name, frame.pop())
    return function


@operation("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    function = frame.pop()
    set_attribute(machine, function, instruction.value, frame.pop())
    return function


def set_attribute(machine: Machine, function: FunctionValue, name: str, value: Any) -> None:
    """`value` is a tuple of defaults or cells, a dictionary by name, or the function that evaluates annotations (3.14)."""
    if name == "__defaults__":
        function.defaults = value.items
    elif name == "__kwdefaults__":
        function.keyword_defaults = {key: item for key, (_, item) in value.items.items()}
    elif name == "__closure__":
        function.closure = value.items
    elif name == "__annotations__":
        # Names and values by turns. Behind a break in one of these the names before it come from outside.
        names = [machine.realize(each) for each in value.items[::2]]
        pairs = zip(names, value.items[1::2], strict=True)
        function.attributes[name] = DictValue({key.value: (key, item) for key, item in pairs})
    elif name == "__annotate__":
        function.attributes[name] = value
