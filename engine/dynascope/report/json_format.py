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
from collections.abc import Callable
from typing import Any, Literal, TypeVar

T = TypeVar("T")
PLAIN = frozenset({str, int, float, bool, type(None)})
"""Most values of a report; asked first, because one of a large model holds a hundred thousand."""
SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def to_json(value: Any) -> Any:
    """Dataclasses to objects, tuples to arrays; scalars stay."""
    kind = type(value)
    if kind in PLAIN:
        return value
    names = _names(kind)
    if names is not None:
        items = [getattr(value, name) for name in names]
        return dict(zip(names, [i if type(i) in PLAIN else to_json(i) for i in items], strict=True))
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(kind: type[T], data: Any) -> T:
    """The inverse of `to_json`. Unknown keys are ignored, so that an older reader reads a newer minor form.

    Raises `ValueError` naming the place when the data does not fit the type.
    """
    try:
        return _reader(kind)(data)
    except _Misfit as misfit:
        place = getattr(kind, "__name__", "value") + misfit.place
        raise ValueError(f"{place}: expected {misfit.wanted}, found {misfit.found!r}") from None


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
def _names(kind: type) -> tuple[str, ...] | None:
    """Of a dataclass's fields; None for what is none."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (field.name, hints[field.name], field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    )


class _Misfit(Exception):
    """`place` is put together from the inside out, on the way to where it is said."""

    def __init__(self, wanted: str, found: Any) -> None:
        super().__init__(wanted)
        self.wanted, self.found, self.place = wanted, found, ""

    def inside(self, part: str) -> _Misfit:
        self.place = part + self.place
        return self


Reader = Callable[[Any], Any]


@functools.cache
def _reader(kind: Any) -> Reader:
    """What reads a value of a type: made once, because a report of a large model holds a hundred thousand values."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _reader_of_dataclass(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        inner = _reader(next(a for a in arguments if a is not type(None)))
        return (lambda data: None if data is None else inner(data)) if type(None) in arguments else inner
    if origin is tuple:
        return functools.partial(_read_tuple, _reader(arguments[0]))
    if origin is dict:
        return functools.partial(_read_dict, _reader(arguments[1]))
    if origin is Literal:
        return functools.partial(_read_one_of, arguments)
    return functools.partial(_read_scalar, (int, float) if kind is float else kind, SCALARS[kind])


def _reader_of_dataclass(kind: type) -> Reader:
    fields = [(name, _reader(hint), required) for name, hint, required in _fields(kind)]

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _Misfit("an object", data)
        values = {}
        for name, reader, required in fields:
            if name in data:
                try:
                    values[name] = reader(data[name])
                except _Misfit as misfit:
                    raise misfit.inside(f".{name}") from None
            elif required:
                raise _Misfit("a value", "nothing").inside(f".{name}")
        return kind(**values)

    return read


def _read_tuple(reader: Reader, data: Any) -> tuple:
    if not isinstance(data, list):
        raise _Misfit("an array", data)
    made: list[Any] = []
    try:
        made.extend(map(reader, data))
    except _Misfit as misfit:
        raise misfit.inside(f"[{len(made)}]") from None
    return tuple(made)


def _read_dict(reader: Reader, data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _Misfit("an object", data)
    made = {}
    for key, item in data.items():
        try:
            made[key] = reader(item)
        except _Misfit as misfit:
            raise misfit.inside(f".{key}") from None
    return made


def _read_one_of(values: tuple, data: Any) -> Any:
    if data not in values:
        raise _Misfit(f"one of {values}", data)
    return data


def _read_scalar(accepted: Any, wanted: str, data: Any) -> Any:
    if not isinstance(data, accepted):
        raise _Misfit(wanted, data)
    return data


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
