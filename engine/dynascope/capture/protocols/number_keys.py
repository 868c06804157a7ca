"""Numbers that vary as keys of dicts: each is told apart from every other key that is a number by a relation that is relied on.

    found = {}; found[count] = x; return found[count]     `count` may be another at the next call
    ... and found[5] = y                                  a relation: `count` is not 5 (or that it is, where it is)

Host containers find such a key by what the number is in this call. That is right at each call for which the relations hold: which keys
are equal is then the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope.capture.values import DictValue, SymbolicNumber, Value
from dynascope.sizes import Size, roots_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

FEW = 8
"""More relations than these are not relied on: the number is then the one of this call."""
EQUAL_TO_NO_NUMBER = (str, bytes, tuple, type(None), type, frozenset, Value)
NUMBERS = (int, bool, float)


class NumberKey:
    """What finds a number that varies: equal to what the number is in this call."""

    __slots__ = ("hint", "size")

    def __init__(self, size: Size) -> None:
        self.size, self.hint = size, size.hint

    def __hash__(self) -> int:
        return hash(self.hint)

    def __eq__(self, other: object) -> bool:
        return self.hint == (other.hint if isinstance(other, NumberKey) else other)


class NumberKeys:
    """The numbers among the keys of one capture."""

    def __init__(self) -> None:
        self.plain: dict[int | float, None] = {}
        self.varying: list[SymbolicNumber] = []
        self.has_others = False
        """Whether there are keys of other types, which may be equal to numbers by code of their own."""


def varying_key(machine: Machine, value: Value) -> NumberKey | None:
    """None where that is no number which varies, or where it is to be what it is in this call."""
    if type(value) is not SymbolicNumber or value.python_type is not int:
        return None
    numbers = machine.number_keys
    if any(each.size.expression == value.size.expression for each in numbers.varying):
        return NumberKey(value.size)
    is_late = any(root.name in machine.sizes.scope.late for root in roots_of([value.size]))
    if is_late or numbers.has_others or len(numbers.plain) + len(numbers.varying) > FEW:
        return None
    for plain in numbers.plain:
        _is_equal(value.size, plain)
    for varying in numbers.varying:
        _is_equal(value.size, varying.size)
    machine.journal.append(numbers.varying, value)
    return NumberKey(value.size)


def note(machine: Machine, key: Any) -> None:
    """A key that does not vary: numbers that do are equal to it, or not, at each call as in this one."""
    numbers = machine.number_keys
    if isinstance(key, EQUAL_TO_NO_NUMBER) or numbers.has_others or type(key).__eq__ is object.__eq__:
        return
    if type(key) not in NUMBERS:
        numbers.has_others = True
    elif key in numbers.plain:
        return
    elif type(key) is not float or key.is_integer():
        numbers.plain[key] = None
    else:
        return
    for varying in numbers.varying:
        if numbers.has_others or len(numbers.plain) > FEW:
            machine.known(varying)
        else:
            _is_equal(varying.size, key)


def note_keys(machine: Machine, dictionary: DictValue) -> None:
    """Keys of a dict that was computed, or came as a whole."""
    for key in dictionary.items:
        if not isinstance(key, NumberKey):
            note(machine, key)


def note_apart(machine: Machine, *dictionaries: DictValue) -> None:
    """Of dicts that are put together or compared, whose keys nobody asks for one by one."""
    if machine.number_keys.varying:
        for dictionary in dictionaries:
            note_keys(machine, dictionary)


def _is_equal(size: Size, number: Any) -> bool:
    """Relied on by being asked."""
    return bool(size == (int(number) if isinstance(number, (bool, float)) else number))
