"""Whether a text asks the program for words of its own: of a class with a metaclass, or of a member of an enum, however deep it lies.

    class Level(enum.Enum):
        LOW = 1
        def __repr__(self): told.append(self); return "low"
    str([Level.LOW])    "%s" % Level.LOW    "{!r}".format(Level.LOW)        Python says it, at each call
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dynascope.capture.protocols.classes import has_own_method
from dynascope.capture.reasons import ForeignValue
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, DictValue, ListValue, SetValue, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def asks_program(machine: Machine, value: Value) -> bool:
    value = machine.realize(value)
    if isinstance(value, ConstantValue):
        return has_own_method(value, "__str__", "__repr__", "__format__")
    if isinstance(value, DictValue):
        parts = [each for pair in value.items.values() for each in pair]
    elif isinstance(value, SetValue):
        parts = list(value.items.values())
    else:
        parts = list(value.items) if isinstance(value, (ListValue, TupleValue)) else []
    return any(asks_program(machine, each) for each in parts)


WORDS = {"s": str, "r": repr}
PLAIN = re.compile(r"(?:[^%]|%[%sr])*")


def with_texts(machine: Machine, template: Value, value: Value) -> tuple[Value, Value]:
    """Of `template % value` both with the program's own words in their places, asked in that order. Breaks where the template says
    more of them than that they stand there."""
    text = template.value if isinstance(template, ConstantValue) else None
    items = value.items if isinstance(value, TupleValue) and value.python_type is tuple else (value,)
    is_plain = type(text) is str and PLAIN.fullmatch(text) is not None
    words = [each for each in re.findall("%(.)", text, re.DOTALL) if each != "%"] if is_plain else []
    if len(words) != len(items):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    texts = tuple(machine.finish(machine.call(ConstantValue(WORDS[word]), [item])) for word, item in zip(words, items, strict=True))
    return ConstantValue(re.sub("%([%sr])", lambda found: "%%" if found[1] == "%" else "%s", text)), TupleValue(texts)
