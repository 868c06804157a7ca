"""What becomes a list or a tuple is asked before how much it is (`PyObject_LengthHint`, Objects/abstract.c).

    list(dataset)       dataset.__iter__(), dataset.__len__(), and then the items

The answer changes nothing; that a class of the program's is asked may be seen, and it may raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.classes import has_python_method
from dynascope.capture.protocols.iteration import elements, iterator, rest
from dynascope.capture.protocols.truth import length_of
from dynascope.capture.reasons import ProgramRaises
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import ConstantValue, InstanceValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def listed(machine: Machine, value: Value) -> list[Value]:
    """As `elements`."""
    value = machine.known(value)
    if not is_asked(value):
        return elements(machine, value)
    source = iterator(machine, value)
    ask(machine, value)
    return rest(machine, source)


def is_asked(value: Value) -> bool:
    return isinstance(value, InstanceValue) and any(has_python_method(value.cls, name) for name in ("__len__", "__length_hint__"))


def ask(machine: Machine, value: Value) -> None:
    """A TypeError says that it does not know."""
    for name, call in (("__len__", length_of), ("__length_hint__", _hint_of)):
        if has_python_method(value.python_type, name):
            try:
                with machine.catching():
                    call(machine, value)
                return
            except Raised as raised:
                if not issubclass(raised.value.python_type, TypeError):
                    raise


def _hint_of(machine: Machine, value: Value) -> None:
    answer = machine.known(machine.call_now(special(machine, value, "__length_hint__"), []))
    is_told = isinstance(answer, ConstantValue) and isinstance(answer.value, int) and answer.value >= 0
    if not is_told and not (isinstance(answer, ConstantValue) and answer.value is NotImplemented):
        raise Break(ProgramRaises("TypeError", machine.expression()))
