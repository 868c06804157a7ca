"""What the client and the user want: `initializationOptions`, and later changes of the same form.

read_settings({"interpreter": "/usr/bin/python3", "run": {"timeout": "x"}})
->  Settings(interpreter="/usr/bin/python3", ...), ["`run.timeout` should be a number, not 'x'"]
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class RunSettings:
    arguments: tuple[str, ...] = ()
    device: str | None = None
    dynamic: bool = False
    fullgraph: bool = False
    backend: str | None = None
    timeout: float = 0.0
    """Seconds; 0 stands for none."""

    def options(self) -> tuple[str, ...]:
        """As options of `python -m dynascope run`."""
        valued = (("--device", self.device), ("--backend", self.backend), ("--timeout", self.timeout or None))
        switches = (("--dynamic", self.dynamic), ("--fullgraph", self.fullgraph))
        named = [word for name, value in valued if value for word in (name, f"{value}")]
        return (*named, *(name for name, wanted in switches if wanted))


@dataclass(frozen=True, slots=True)
class ClientAbilities:
    """What the client understands beyond LSP; see PROTOCOL.md."""

    virtualDocuments: bool = False
    output: bool = False
    runState: bool = False
    tree: bool = False
    """It shows a tree, and wants to know when it may be another."""
    variants: bool = False
    """It asks the person which variant to show; otherwise a click shows the next one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Field names are the keys of the protocol."""

    interpreter: str | None = None
    enginePath: tuple[str, ...] = ()
    pagesPath: str | None = None
    storagePath: str | None = None
    trusted: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    run: RunSettings = RunSettings()
    lenses: bool = True
    hints: bool = True
    runOnSave: bool = False
    live: bool = True
    maximumRuns: int = 2
    client: ClientAbilities = ClientAbilities()


KINDS: dict[Any, tuple[type | tuple[type, ...], str]] = {
    str: (str, "a string"),
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
}


def read_settings(data: Any, base: Settings | None = None) -> tuple[Settings, list[str]]:
    """The settings of `base` with those keys changed that `data` has, and what in `data` could not be used."""
    complaints: list[str] = []
    return _read_object(base or Settings(), data, "", complaints), complaints


def _read_object(base: Any, data: Any, prefix: str, complaints: list[str]) -> Any:
    if data is None:
        return base
    if not isinstance(data, Mapping):
        complaints.append(f"`{prefix.rstrip('.') or 'settings'}` should be an object, not {data!r}")
        return base
    hints, default = typing.get_type_hints(type(base)), type(base)()
    values = {entry.name: getattr(base, entry.name) for entry in fields(base)}
    for name in values.keys() & data.keys():
        given, place = data[name], f"{prefix}{name}"
        if given is None:
            values[name] = getattr(default, name)
        elif hasattr(values[name], "__dataclass_fields__"):
            values[name] = _read_object(values[name], given, f"{place}.", complaints)
        else:
            values[name] = _read_value(hints[name], given, place, getattr(default, name), complaints)
    return type(base)(**values)


def _read_value(hint: Any, given: Any, place: str, default: Any, complaints: list[str]) -> Any:
    if typing.get_origin(hint) is tuple:
        items = [given] if isinstance(given, str) else given
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return tuple(items)
        return _complain(place, "a list of strings", given, default, complaints)
    if isinstance(default, Mapping):
        if isinstance(given, Mapping) and all(isinstance(item, str) for item in given.values()):
            return dict(given)
        return _complain(place, "an object of strings", given, default, complaints)
    kind = next(part for part in (*typing.get_args(hint), hint) if part in KINDS)
    accepted, words = KINDS[kind]
    if not isinstance(given, accepted) or (isinstance(given, bool) and kind is not bool):
        return _complain(place, words, given, default, complaints)
    # An empty string in an editor's settings page means "not set".
    return None if given == "" and default is None else given


def _complain(place: str, wanted: str, given: Any, default: Any, complaints: list[str]) -> Any:
    complaints.append(f"`{place}` should be {wanted}, not {given!r}; its default is used")
    return default
