"""How to take back what a step did: a list of undo actions, run backwards.

    mark = journal.mark()
    journal.set(value, "items", [...])     # remembers the old items
    journal.rollback(mark)                 # puts them back

Copying the whole state before every instruction that may break would cost as much as running it; a mark costs a length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MISSING = object()


class Journal:
    """All mutable state of a capture changes through here."""

    __slots__ = ("_undo",)

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def mark(self) -> int:
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    def forget(self) -> None:
        """Nothing will be taken back any more."""
        self._undo.clear()

    def record(self, undo: Callable[[], Any]) -> None:
        self._undo.append(undo)

    def set(self, owner: Any, attribute: str, value: Any) -> None:
        old = getattr(owner, attribute)
        self._undo.append(lambda: setattr(owner, attribute, old))
        setattr(owner, attribute, value)

    def set_item(self, mapping: dict, key: Any, value: Any) -> None:
        old = mapping.get(key, _MISSING)
        if old is _MISSING:
            self._undo.append(lambda: mapping.pop(key, None))
        else:
            self._undo.append(lambda: mapping.__setitem__(key, old))
        mapping[key] = value

    def pop_item(self, mapping: dict, key: Any) -> None:
        """Taken back, the item stands where it stood."""
        old = dict(mapping)
        self._undo.append(lambda: (mapping.clear(), mapping.update(old)))
        del mapping[key]

    def append(self, items: list, item: Any) -> None:
        self._undo.append(items.pop)
        items.append(item)
