"""In which order Python gives the items of a set: that of its table, which follows from what came and went, and in which calls.

    {"a", "b"} | names      SetRecipe(operator.or_, (("a", "b"), recipe of names))
    recipe.made()           a set of Python's to which the same was done, whose order is the program's

`set` takes a frozenset or a dict with room for all at once, a list item by item: with the same items the tables differ
(`set_update_internal`, CPython's Objects/setobject.c).
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any

from dynascope.dataclass import dataclass

Change = tuple[Callable[..., Any], tuple[Any, ...]]
"""A method of sets and what it is given. Recipes among that are followed first."""


@dataclass(frozen=True, slots=True)
class SetRecipe:
    """`make(*given)` with `changes` made to it afterwards."""

    make: Callable[..., Set[Any]]
    given: tuple[Any, ...]
    changes: tuple[Change, ...] = ()

    def made(self) -> Set[Any]:
        result = self.make(*map(_followed, self.given))
        make_changes(result, self.changes)
        return result

    def changed(self, change: Callable[..., Any], *given: Any) -> SetRecipe:
        return replace(self, changes=(*self.changes, (change, given)))


def make_changes(target: Any, changes: tuple[Change, ...]) -> None:
    for change, given in changes:
        change(target, *map(_followed, given))


def can_be_made(changes: tuple[Change, ...] | None) -> bool:
    """Whether what they are given is all numbers and texts, or made of such: other keys only stand for an object."""
    return changes is not None and all(all(map(_is_known, given)) for _, given in changes)


def _is_known(given: Any) -> bool:
    if isinstance(given, SetRecipe):
        return all(map(_is_known, given.given)) and can_be_made(given.changes)
    return all(map(_is_known, given)) if type(given) in (tuple, frozenset) else _has_own_hash(given)


def _followed(given: Any) -> Any:
    return given.made() if isinstance(given, SetRecipe) else given


def as_dictionary(keys: tuple[Any, ...]) -> dict[Any, None]:
    return dict.fromkeys(keys)


def as_keys_view(keys: tuple[Any, ...]) -> Any:
    return dict.fromkeys(keys).keys()


def told(recipe: SetRecipe | None, keys: Any) -> list[Any] | None:
    """The keys in their order, if the recipe makes just these, and they are numbers and texts, or tuples of such: what else has its
    hash from its place in memory."""
    if recipe is None or not all(map(_has_own_hash, keys)):
        return None
    made = recipe.made()
    return list(made) if made == set(keys) else None


def _has_own_hash(key: Any) -> bool:
    """A NaN has its place's."""
    if type(key) is tuple:
        return all(map(_has_own_hash, key))
    return type(key) in (int, bool, float, complex, str, bytes) and key == key
