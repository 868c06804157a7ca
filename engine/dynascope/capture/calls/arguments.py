"""How the meanings of calls get their arguments."""

from __future__ import annotations

from dynascope.capture.values import NONE, ConstantValue, Value

Arguments = list[Value]
Keywords = dict[str, Value]


def argument(arguments: Arguments, keywords: Keywords, at: int, name: str, default: Value = NONE) -> Value:
    return arguments[at] if len(arguments) > at else keywords.get(name, default)


def in_order(arguments: Arguments, keywords: Keywords, *names: str) -> Arguments:
    """All by position, of a function whose parameters are called so."""
    return [*arguments, *(keywords[name] for name in names[len(arguments) :] if name in keywords)]


def is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None
