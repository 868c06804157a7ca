"""In which order Python gives the items of a set: that of its table, which follows from what came and went, and in which calls.

    {"a", "b"} | names      SetRecipe(operator.or_, (("a", "b"), recipe of names))
    recipe.made()           a set of Python's to which the same was done, whose order is the program's

`set` takes a frozenset or a dict with room for all at once, a list item by item: with the same items the tables differ
(`set_update_internal`, CPython's Objects/setobject.c).
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class SetRecipe:
    """`make(*given)` with `changes` made to it afterwards: each a method and what it was given. Recipes among what is given are
    followed first."""

    make: Callable[..., Set[Any]]
    given: tuple[Any, ...]
    changes: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = ()

    def made(self) -> Set[Any]:
        result = self.make(*map(_followed, self.given))
        for change, given in self.changes:
            change(result, *map(_followed, given))
        return result

    def changed(self, change: Callable[..., Any], *given: Any) -> SetRecipe:
        return replace(self, changes=(*self.changes, (change, given)))


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
