"""How the meanings of calls get their arguments."""

from __future__ import annotations

from dynascope.capture.values import NONE, ConstantValue, Value

Arguments = list[Value]
Keywords = dict[str, Value]


def argument(arguments: Arguments, keywords: Keywords, at: int, name: str, default: Value = NONE) -> Value:
    return arguments[at] if len(arguments) > at else keywords.get(name, default)


def is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None
