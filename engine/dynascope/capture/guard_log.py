"""What capture assumed about the outside, each assumption once, with the line that first needed it.

    log.add(source, TypeIs(list))     recorded, unless the same is known already or the place cannot change

The log only grows: a guard recorded by a step that was undone costs a check and is never wrong.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from dynascope.capture.places import STABLE_TYPES, is_library, is_library_name
from dynascope.guards.guard import Guard, IdentityIs, TypeIs
from dynascope.guards.source import ConstantSource, MadeSource, Source
from dynascope.guards.state_calls import CallReturns
from dynascope.guards.world import WorldIs, WorldLog
from dynascope.report.span import UserStack

UNCHANGING = (*STABLE_TYPES, int, float, complex, str, bytes, tuple, frozenset, type(None))


class GuardLog:
    """Guards by place and predicate. `user_stack` says which line is asking."""

    def __init__(self, user_stack: Callable[[], UserStack]) -> None:
        self.user_stack = user_stack
        self._guards: dict[Any, Guard] = {}
        self._followed: set[Callable[[], Any]] = set()
        self.world = WorldLog()

    def add(self, source: Source | None, predicate: Any) -> None:
        if source is None or is_fixed(source):
            return
        if not (isinstance(source, ConstantSource) and isinstance(predicate, (IdentityIs, TypeIs))):
            self._add((source,), predicate)

    def add_pair(self, first: Source, second: Source, predicate: Any) -> None:
        if not (is_fixed(first) and is_fixed(second)):
            self._add((first, second), predicate)

    def add_group(self, sources: tuple[Source, ...], predicate: Any) -> None:
        self._add(sources, predicate)

    def add_state(self, predicate: Any) -> None:
        """About no place, but about a state that a library keeps."""
        if not (isinstance(predicate, CallReturns) and predicate.function in self._followed):
            self._add((), predicate)

    def follow_state(self, function: Callable[[], Any]) -> None:
        """The program itself changes what the function says from now on: only what it says before that is assumed."""
        self.add_state(CallReturns(function, function()))
        self._followed.add(function)

    def settle_state(self, functions: Iterable[Callable[[], Any]]) -> None:
        """The program itself sets what they say from now on, and what it was before others assume."""
        self._followed.update(functions)

    def _add(self, sources: tuple[Source, ...], predicate: Any) -> None:
        key = (sources, predicate)
        if key in self._guards:
            return
        stack = self.user_stack()
        self._guards[key] = Guard(sources, predicate, stack[-1].span if stack else None, stack)

    @property
    def count(self) -> int:
        return len(self._guards)

    def known(self) -> tuple[Guard, ...]:
        """So far, in the order in which they were needed."""
        return tuple(self._guards.values())

    def guards(self) -> tuple[Guard, ...]:
        spaces = self.world.spaces()
        world = (Guard((), WorldIs(spaces)),) if spaces else ()
        return (*world, *self._guards.values())


def is_fixed(source: Source) -> bool:
    """Whether the place belongs to the compiled entry itself, or to something that nobody changes."""
    while not isinstance(source, ConstantSource):
        if isinstance(source, MadeSource):
            return True
        source = getattr(source, "base", None)
        if source is None:
            return False
    return not can_change(source.value)


def can_change(value: Any) -> bool:
    """Whether what lies in an object is asked for again: not the library's classes, whose names are noted (`world.py`), nor
    the code of its functions, which is taken never to change."""
    if isinstance(value, types.ModuleType):
        return True
    if isinstance(value, types.FunctionType):
        return not is_library(value.__globals__)
    if isinstance(value, type):
        return not is_library_name(value.__module__ or "")
    return not isinstance(value, UNCHANGING)
