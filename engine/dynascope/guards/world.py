"""The names that a program takes from namespaces which nobody is expected to change, and nobody is kept from changing.

    log = WorldLog();  log.note(vars(torch.nn.functional), "relu", F.relu);  log.note(nn.Linear, "forward", ABSENT)
    WorldIs(log.spaces())      check() == "2 names of torch.nn.functional and Linear are what they were"

A space is a module's dictionary or a class (whose names are those of its bases too). The C check compares one version for
each space, however many names it has (frame/world.h); `holds` looks each of them up.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.guards.guard import Equals, IdentityIs, Predicate, TypeIs, describe_object, short_repr

ABSENT = object()
"""In place of a value: the space has no such name."""
IS_NEW = "is there now"

Space = dict | type
_LITERALS = (bool, int, float, complex, str, bytes, type(None))
_IMMUTABLE_CLASS = 1 << 8
"""Py_TPFLAGS_IMMUTABLETYPE: Python lets nobody set an attribute of such a class."""


class WorldLog:
    """What was looked up so far, each name of each space once."""

    def __init__(self) -> None:
        self._spaces: dict[int, tuple[Space, dict[str, Any]]] = {}

    def note(self, space: Space, name: str, found: Any) -> None:
        """`space` leads from `name` to `found` now, or has no such name (`ABSENT`)."""
        if isinstance(space, type) and space.__flags__ & _IMMUTABLE_CLASS or type(name) is not str:
            return
        _, names = self._spaces.setdefault(id(space), (space, {}))
        if name not in names or isinstance(names[name], TypeIs):
            names[name] = expected(found)

    def note_type(self, space: type, name: str, found: Any) -> None:
        """What `space` leads to from `name` is of the type of `found`: which one it is, and what it holds, nobody asked."""
        _, names = self._spaces.get(id(space)) or self._spaces.setdefault(id(space), (space, {}))
        if name not in names:
            names[name] = TypeIs(type(found))

    def note_all(self, space: type, names: dict[str, Any]) -> None:
        """Many names at once, with what is expected of each."""
        known = self._spaces.setdefault(id(space), (space, {}))[1]
        known.update((name, wanted) for name, wanted in names.items() if name not in known or isinstance(known[name], TypeIs))

    def spaces(self) -> tuple[tuple[Space, tuple[tuple[str, Any], ...]], ...]:
        return tuple((space, tuple(names.items())) for space, names in self._spaces.values())


def expected(found: Any) -> Any:
    """What is asked of a name that leads to `found` now."""
    if found is ABSENT:
        return ABSENT
    return Equals(found) if type(found) in _LITERALS else IdentityIs(found)


@dataclass(frozen=True, eq=False)
class WorldIs(Predicate):
    """Every name of these spaces leads where it led: `((space, ((name, predicate or ABSENT), ...)), ...)`."""

    spaces: tuple[tuple[Space, tuple[tuple[str, Any], ...]], ...]
    orders: tuple[tuple[type, ...] | None, ...] = field(init=False)
    """Of each class those that it takes from, in their order: `super()` goes by it, and `D.__bases__ = C, B` changes it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(_order(space) for space, _ in self.spaces))

    def holds(self) -> bool:
        return next(self._changes(), None) is None

    def check(self) -> str:
        count = sum(len(names) for _, names in self.spaces)
        titles = sorted({_title(space) for space, _ in self.spaces})
        left = len(titles) - 4
        shown = ", ".join(titles[:4]) + (f" and {left} other{'s' if left > 1 else ''}" if left > 0 else "")
        inside = "in them" if len(titles) > 1 else "in it"
        return f"{shown}: nothing {inside} was replaced ({count} name{'s' if count != 1 else ''} looked up)"

    def failure(self, expression: str) -> str:
        return next((f"`{place}` {what}" for place, what in self._changes()), "nothing that was looked up was replaced")

    def changed(self) -> tuple[str, bool]:
        """The name that leads elsewhere now, and whether it is new."""
        place, what = next(self._changes(), ("", ""))
        return place, what.startswith(IS_NEW)

    def numbers_changed(self) -> Iterator[tuple[type, str]]:
        """Those that classes held as numbers, and hold as others now: where they lie."""
        for space, names in self.spaces:
            for name, wanted in names if isinstance(space, type) else ():
                is_number = isinstance(wanted, Equals) and type(wanted.value) is int
                if is_number and type(found := look_up(space, name)) is int and found != wanted.value:
                    yield space, name

    def _changes(self) -> Iterator[tuple[str, str]]:
        for (space, names), order in zip(self.spaces, self.orders, strict=True):
            if order is not None and list(map(id, _order(space))) != list(map(id, order)):
                yield _title(space), "takes from other classes, or in another order"
            for name, wanted in names:
                found = look_up(space, name)
                place = f"{_title(space)}.{name}"
                if wanted is ABSENT:
                    if found is not ABSENT:
                        yield place, f"{IS_NEW}, and was not the first time"
                elif found is ABSENT:
                    yield place, "is gone"
                elif not wanted.holds(found):
                    yield place, f"is {_shown(found)}, and was {wanted.check().removeprefix('is ')}"


def _order(space: Space) -> tuple[type, ...] | None:
    return space.__mro__ if isinstance(space, type) else None


def look_up(space: Space, name: str) -> Any:
    """The raw entry; no descriptor is called."""
    if isinstance(space, dict):
        return space.get(name, ABSENT)
    return next((vars(base)[name] for base in space.__mro__ if name in vars(base)), ABSENT)


def world_operand(predicate: WorldIs) -> tuple:
    """The operand of CHECK_WORLD: ((owner, ((name, kind, expected), ...), order), ...)."""
    spaces = zip(predicate.spaces, predicate.orders, strict=True)
    return tuple((space, tuple(_row(name, wanted) for name, wanted in names), order) for (space, names), order in spaces)


_ABSENT, _IDENTICAL, _WEAKLY_IDENTICAL, _EQUAL, _OF_TYPE = range(5)


def _row(name: str, wanted: Any) -> tuple[str, int, Any]:
    if wanted is ABSENT:
        return name, _ABSENT, None
    if isinstance(wanted, Equals):
        return name, _EQUAL, wanted.value
    if isinstance(wanted, TypeIs):
        return name, _OF_TYPE, wanted.type
    if isinstance(wanted.target, weakref.ref):
        return name, _WEAKLY_IDENTICAL, wanted.target
    return name, _IDENTICAL, wanted.target()


def _title(space: Space) -> str:
    return space.__qualname__ if isinstance(space, type) else str(space.get("__name__", "a module"))


def _shown(found: Any) -> str:
    text = describe_object(found)
    return f"another one ({text})" if text.startswith("the ") else short_repr(found)
