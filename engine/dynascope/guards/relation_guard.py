"""What compiled code relies on between numbers that vary: sizes of tensors and Python's own.

    RelationHolds(n <= 512, ("n",))      over LocalSource("n")
    Guard(...).describe()                "`n` keeps to `n <= 512`"

All of an entry's relations are one check (`relations_check`): numbers are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.guards.guard import Predicate
from dynascope.guards.source import ExtentSource, Source
from dynascope.sizes.expression import of_root, substitute, text
from dynascope.sizes.relations import Relation

NOT_COMPUTED = (ArithmeticError, ValueError)
"""A relation between numbers that have no logarithm is not."""


@dataclass(frozen=True)
class RelationHolds(Predicate):
    """`names` are the relation's roots, in the order of the guard's sources; `words` says it in the user's own terms."""

    relation: Relation
    names: tuple[str, ...]
    words: str

    def holds(self, *numbers: Any) -> bool:
        try:
            return self.relation.is_true(dict(zip(self.names, numbers, strict=True)))
        except NOT_COMPUTED:
            return False

    def check(self) -> str:
        return f"keeps to `{self.words}`" if len(self.names) == 1 else f"keep to `{self.words}`"

    def failure(self, expression: str, *numbers: Any) -> str:
        now = " and ".join(map(str, numbers))
        return f"{expression} {'is' if len(numbers) == 1 else 'are'} {now}: `{self.words}` does not hold"


Read = tuple[Source, str | None, int]
"""What is read: a place, and of a tensor there `size` or `stride` of a dimension."""


def read_of(source: Source) -> Read:
    if isinstance(source, ExtentSource):
        return source.base, source.kind, source.dimension
    return source, None, 0


def relations_check(
    guards: Sequence[tuple[RelationHolds, Sequence[Source]]],
) -> tuple[Callable[..., bool], tuple[Source, ...]]:
    """One function of all the guards, and the places whose values it takes."""
    places: dict[Source, int] = {}
    reads: dict[Source, str] = {}
    lines: list[str] = []
    layouts: set[tuple[int, str]] = set()
    conditions = []
    environment: dict[str, Any] = {"is_same": _is_same, "not_computed": NOT_COMPUTED}
    for predicate, sources in guards:
        for source in sources:
            if source not in reads:
                base, kind, dimension = read_of(source)
                at = places.setdefault(base, len(places))
                if kind is not None and (at, kind) not in layouts:
                    layouts.add((at, kind))
                    lines.append(f"    {kind}{at} = v{at}.{'shape' if kind == 'size' else 'stride()'}")
                reads[source] = f"n{len(reads)}"
                found = f"v{at}" if kind is None else f"{kind}{at}[{dimension}]"
                lines.append(f"    {reads[source]} = {found}")
        named = {name: reads[source] for name, source in zip(predicate.names, sources, strict=True)}
        conditions.append(_condition(predicate.relation, named, environment))
    source = "\n".join(
        [
            f"def check({', '.join(f'v{at}' for at in range(len(places)))}):",
            *lines,
            "    try:",
            f"        return {' and '.join(conditions)}",
            "    except not_computed:",
            "        return False",
        ]
    )
    exec(compile(source, "<sizes>", "exec"), environment)
    return environment["check"], tuple(places)


def _is_same(left: Any, right: Any) -> bool:
    return Relation("is", left, right).is_true({})


def _condition(relation: Relation, names: dict[str, str], environment: dict[str, Any]) -> str:
    left, right = (_text(side, names, environment) for side in (relation.left, relation.right))
    words = f"is_same({left}, {right})" if relation.operator == "is" else f"({left}) {relation.operator} ({right})"
    return f"(not {words})" if relation.holds_not else f"({words})"


def _text(side: Any, names: dict[str, str], environment: dict[str, Any]) -> str:
    return text(substitute(side, lambda root: of_root(root.named(names[root.name]))), environment)
