"""The report as JSON, and back; and the JSON Schema of it, made from the dataclasses themselves.

to_json(Span("a.py", 3))  ->  {"file": "a.py", "line": 3, "column": None, ...}
from_json(Span, {...})    ->  Span("a.py", 3)
schema(CompileReport)     ->  {"$schema": ..., "$defs": {"Span": ...}}
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any, Literal, TypeVar

T = TypeVar("T")
SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def to_json(value: Any) -> Any:
    """Dataclasses to objects, tuples to arrays; scalars stay."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(kind: type[T], data: Any) -> T:
    """The inverse of `to_json`. Unknown keys are ignored, so that an older reader reads a newer minor form.

    Raises `ValueError` naming the place when the data does not fit the type.
    """
    return _read(kind, data, getattr(kind, "__name__", "value"))


def schema(kind: type) -> dict[str, Any]:
    """JSON Schema (2020-12) of a dataclass and all that it refers to."""
    definitions: dict[str, Any] = {}
    root = _schema_of(kind, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (field.name, hints[field.name], field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    )


def _read(kind: Any, data: Any, place: str) -> Any:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, data, place)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        return _read(next(a for a in arguments if a is not type(None)), data, place)
    if origin is tuple:
        _expect(isinstance(data, list), place, "an array", data)
        return tuple(_read(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(data))
    if origin is dict:
        _expect(isinstance(data, dict), place, "an object", data)
        return {key: _read(arguments[1], item, f"{place}.{key}") for key, item in data.items()}
    if origin is Literal:
        _expect(data in arguments, place, f"one of {arguments}", data)
        return data
    accepted = (int, float) if kind is float else kind
    _expect(isinstance(data, accepted), place, SCALARS[kind], data)
    return data


def _read_dataclass(kind: type, data: Any, place: str) -> Any:
    _expect(isinstance(data, dict), place, "an object", data)
    values = {}
    for name, hint, required in _fields(kind):
        if name in data:
            values[name] = _read(hint, data[name], f"{place}.{name}")
        else:
            _expect(not required, f"{place}.{name}", "a value", "nothing")
    return kind(**values)


def _expect(fits: bool, place: str, wanted: str, found: Any) -> None:
    if not fits:
        raise ValueError(f"{place}: expected {wanted}, found {found!r}")


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _schema_of_dataclass(kind, definitions)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        parts = [{"type": "null"} if a is type(None) else _schema_of(a, definitions) for a in arguments]
        return {"anyOf": parts}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    if origin is Literal:
        return {"enum": list(arguments)}
    return {"type": SCALARS[kind]}


def _schema_of_dataclass(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}
        fields = _fields(kind)
        definitions[name] = {
            "type": "object",
            "title": name,
            "properties": {field: _schema_of(hint, definitions) for field, hint, _ in fields},
            "required": [field for field, _, _ in fields],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}


def main() -> None:
    """Rewrite `schema.json` beside this file from the dataclasses."""
    import json
    from pathlib import Path

    from dynascope.report.facts import CompileReport

    text = json.dumps(schema(CompileReport), indent=2) + "\n"
    Path(__file__).with_name("schema.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
