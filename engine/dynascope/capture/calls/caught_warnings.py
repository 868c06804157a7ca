"""`with warnings.catch_warnings():` around what warns of nothing: the filters that it sets inside hold for nothing, and go with it.

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x.sin()                       ->  x.sin(), and an effect: registries are asked anew, as Python does at each such block

Where something inside warns, or the graph would end inside, it ends before the block, which Python then enters.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls import python
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ProgramRaises, UnrebuildableValue
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, FunctionValue, InstanceValue, ListValue, Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

CATCHING = warnings.catch_warnings
ENTER, EXIT = CATCHING.__enter__, CATCHING.__exit__
ACTIONS = frozenset({"error", "ignore", "always", "all", "default", "module", "once"})


@meaning(ENTER)
def enter(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    manager = machine.realize(arguments[0])
    if (
        not is_made_here(manager)
        or of(machine, manager, "_module") is not warnings
        or of(machine, manager, "_entered") is not False
    ):
        return as_written(machine, ENTER, arguments, keywords)
    machine.journal.set_item(manager.attributes, "_entered", ConstantValue(True))
    machine.journal.append(machine.said, (enter_and_leave, ()))
    machine.journal.set(machine, "warning_blocks", (*machine.warning_blocks, manager))
    return ListValue([]) if of(machine, manager, "_record") else NONE


@meaning(EXIT)
def leave(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    manager = machine.realize(arguments[0])
    if not machine.warning_blocks or manager is not machine.warning_blocks[-1]:
        return as_written(machine, EXIT, arguments, keywords)
    machine.journal.set(machine, "warning_blocks", machine.warning_blocks[:-1])
    return NONE


def is_made_here(manager: Value) -> bool:
    return isinstance(manager, InstanceValue) and manager.cls is CATCHING and manager.object is None


def of(machine: Machine, manager: Any, name: str) -> Any:
    value = machine.realize(manager.attributes.get(name, NONE))
    return value.value if isinstance(value, ConstantValue) else None


def as_written(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Any:
    followed = machine.outside.fixed(function, function.__name__)
    assert isinstance(followed, FunctionValue)
    return python.enter(machine, followed, arguments, keywords)


def follow_filter(function: Any) -> None:
    @meaning(function)
    def set_filter(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        if not machine.warning_blocks:
            return as_written(machine, function, arguments, keywords)
        known = [constant_of(machine.known(each)) for each in (*arguments, *keywords.values())]
        if not all(map(is_plain, known)) or not (known and known[0] in ACTIONS or "action" in keywords):
            raise Break(ProgramRaises("AssertionError", machine.expression()))
        return NONE


for _function in (warnings.simplefilter, warnings.filterwarnings):
    follow_filter(_function)


def is_plain(known: Any) -> bool:
    """What a filter may be given: an action, an expression for texts or modules, a class, a line, whether it comes last."""
    if isinstance(known, str):
        try:
            re.compile(known)
        except re.error:
            return False
        return True
    return isinstance(known, int) or (isinstance(known, type) and issubclass(known, Warning))


def check_left(machine: Machine) -> None:
    """At the end of a graph: the block would be entered, and what is caught there is no effect that can be made later."""
    if machine.warning_blocks:
        raise Break(UnrebuildableValue("a block that catches warnings"))


def enter_and_leave() -> None:
    with warnings.catch_warnings():
        pass
