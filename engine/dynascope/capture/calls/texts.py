"""Texts with numbers in them that vary, or that only the run knows: written when the graph has run.

    f"loss {loss.item():.4f}"      "%d of %d" % (n, len(loader))      ", ".join(f"{k} {v:.3f}" for k, v in metrics.items())

A call without effects that gives a text is kept as it is, with its numbers (`TextValue`). Whether it raises must not hang on them: it is
tried with numbers of the same type that lie as far out as they can.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.values import (
    ArrayValue,
    ConditionValue,
    ConstantValue,
    DictValue,
    ListValue,
    NotConstant,
    SymbolicNumber,
    TensorValue,
    TextValue,
    TupleValue,
    Value,
    constant_of,
    with_numbers,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

FAR_OUT: dict[type, tuple] = {int: (0, -1, 2**62), float: (math.nan, math.inf, -math.inf, -1e308)}
PLAIN = (str, int, float, bool, complex, bytes, type(None), torch.dtype, torch.device)
MOST_LEVELS = 20
WRITTEN_AS_PYTHONS = (torch.float64, torch.int64)
"""Types of NumPy's numbers that Python has: of others the shortest text is another."""


def text(machine: Machine, function: Callable[..., Any], *parts: Value) -> TextValue | None:
    """What `function` gives; None where no number varies, or where it is told something that may be another when it is written."""
    held = [kept(machine, part) for part in parts]
    if not any(map(varies, held)) or not all(map(is_plain, held)):
        return None
    made = TextValue(function, tuple(held), machine.outside)
    return made if levels(made) <= MOST_LEVELS and type(example(made)) is str and is_always_written(made) else None


OF_NUMBERS = re.compile(r"%%|%[-#0 +]*[\d.]*[dieEfFgG]|[^%]")


def percent(machine: Machine, template: Value, value: Value) -> TextValue | None:
    """`"%.3f of %d" % (x, n)`: a tensor is a number to it, but for `%s` and the like."""
    if isinstance(template, ConstantValue) and isinstance(template.value, str) and not OF_NUMBERS.sub("", template.value):
        value = value if isinstance(value, TextValue) else machine.realize(value)
        if isinstance(value, TupleValue) and value.python_type is tuple:
            value = TupleValue(tuple(number_in(machine, item) for item in value.items))
        else:
            value = number_in(machine, value)
    return text(machine, operator.mod, template, value)


def concatenated(machine: Machine, texts: Sequence[Value]) -> TextValue | None:
    """One after the other, each of which is a text: however long it grows, it is of one level."""
    parts: list[Value] = []
    for each in texts:
        parts += joined_parts(each if isinstance(each, TextValue) else machine.realize(each))
    if not any(map(varies, parts)) or any(part.python_type is not str for part in parts):
        return None
    return TextValue(str.join, (ConstantValue(""), TupleValue(tuple(parts))), machine.outside)


def joined_parts(value: Value) -> Sequence[Value]:
    """Those of a text that is put together so already."""
    if isinstance(value, TextValue) and value.function is str.join:
        joined = value.parts[1]
        if is_empty(value.parts[0]) and isinstance(joined, TupleValue):
            return joined.items
    return [value]


def is_empty(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value == ""


def levels(value: Value) -> int:
    """How many texts are made of another, one within the other."""
    parts = value.parts if isinstance(value, TextValue) else value.items if isinstance(value, (ListValue, TupleValue)) else ()
    return isinstance(value, TextValue) + max(map(levels, parts), default=0)


def number_in(machine: Machine, value: Value) -> Value:
    """What `Tensor.__format__` writes of a tensor without dimensions, and which of Python's numbers a number of NumPy's is written as;
    other values as they are."""
    if isinstance(value, TextValue):
        return value
    value = machine.realize(value)
    if isinstance(value, ArrayValue) and value.is_number and value.tensor.example.dtype in WRITTEN_AS_PYTHONS:
        number = late_numbers.number_of_array(machine, value)
        return value if number is None else number
    if not isinstance(value, TensorValue) or value.example.dim() or machine.overriding.asks_modes:
        return value
    number = late_numbers.number_of(machine, value)
    return value if number is None else number


def template_of(function: Callable[..., Any], arguments: Arguments) -> Any:
    """The text whose `format` is called; None for other functions."""
    if function is str.format and arguments:
        return getattr(arguments[0], "value", None)
    return getattr(function, "__self__", None) if function.__name__ == "format" else None


def formats_alone(template: Any) -> bool:
    """Whether `str.format` asks of what it is told nothing but its `__format__`."""
    if type(template) is not str:
        return False
    try:
        fields = [(name, conversion) for _, name, _, conversion in string.Formatter().parse(template) if name is not None]
    except ValueError:
        return False
    return all(conversion is None and not {".", "["} & set(name) for name, conversion in fields)


def call(machine: Machine, function: Callable[..., Any], arguments: Arguments, keywords: Keywords) -> TextValue | None:
    if function is format or formats_alone(template_of(function, arguments)):
        arguments = [number_in(machine, each) for each in arguments]
        keywords = {name: number_in(machine, each) for name, each in keywords.items()}
    if not keywords:
        return text(machine, function, *arguments)
    named = DictValue({name: (ConstantValue(name), value) for name, value in keywords.items()})
    return text(machine, functools.partial(with_keywords, function), TupleValue(tuple(arguments)), named)


def with_keywords(function: Callable[..., Any], arguments: tuple, keywords: dict[str, Any]) -> Any:
    return function(*arguments, **keywords)


def varies(value: Value | None) -> bool:
    if isinstance(value, DictValue):
        return any(varies(item) for _, item in value.items.values())
    if isinstance(value, (ListValue, TupleValue)):
        return any(map(varies, value.items))
    return isinstance(value, (SymbolicNumber, TextValue))


def is_plain(value: Value | None) -> bool:
    """Whether writing it runs no code of the program's."""
    if isinstance(value, DictValue):
        return all(is_plain(part) for pair in value.items.values() for part in pair)
    if isinstance(value, (ListValue, TupleValue)):
        return value.python_type in (list, tuple, torch.Size) and all(map(is_plain, value.items))
    if isinstance(value, ConstantValue):
        return isinstance(value.value, torch.Size) or type(value.value) in PLAIN
    return isinstance(value, (SymbolicNumber, TextValue))


def kept(machine: Machine, value: Value) -> Value | None:
    """The value as it is now: of a container, what it holds. None for what is no number, no text and no constant."""
    if isinstance(value, TextValue):
        return value
    value = machine.realize(value)
    if isinstance(value, TupleValue) or (isinstance(value, (ListValue, DictValue)) and value.instance is None):
        return kept_container(machine, value)
    known = isinstance(value, SymbolicNumber) and not isinstance(value, ConditionValue)
    return value if known or type(constant_of(value)) is not NotConstant else None


def kept_container(machine: Machine, value: ListValue | DictValue | TupleValue) -> Value | None:
    if isinstance(value, DictValue):
        items = {key: (name, kept(machine, item)) for key, (name, item) in value.items.items()}
        whole = value.cls is dict and all(item is not None for _, item in items.values())
        return DictValue({key: (name, item) for key, (name, item) in items.items() if item is not None}) if whole else None
    inner = [kept(machine, item) for item in value.items]
    found = [item for item in inner if item is not None]
    if len(found) < len(inner):
        return None
    return ListValue(found) if isinstance(value, ListValue) else TupleValue(tuple(found), value.cls)


def example(value: Value) -> Any:
    """Of numbers that vary, what they are at hand. None where it cannot be written."""
    return _tried(value, lambda number: number.example)


def is_always_written(value: TextValue) -> bool:
    return all(type(_tried(value, number)) is str for number in _far_out())


def _far_out() -> Iterator[Callable[[SymbolicNumber], Any]]:
    for kind, numbers in FAR_OUT.items():
        for far in numbers:
            yield lambda number, kind=kind, far=far: far if number.python_type is kind else number.example


def _tried(value: Value, number: Callable[[SymbolicNumber], Any]) -> Any:
    try:
        return with_numbers(value, number)
    except Exception:
        return None
