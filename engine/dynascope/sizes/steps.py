"""Of which numbers the sizes of a program are multiples, where it runs at such sizes alone.

    x.view(-1, 8), asked at 7, 5047, ...        no answer
    suitable(scope, ["n"], ask)                 worlds at multiples of 8, what they answer; `n % 8 == 0` is logged
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar

from dynascope.sizes.size import Scope
from dynascope.sizes.worlds import Worlds

STEPS = (2, 4, 8, 16, 64, 3, 5, 720)
LONGER_STEPS = (16, 64)
Run = TypeVar("Run")


def suitable(
    scope: Scope, varied: Sequence[str], ask: Callable[[Worlds], Run | None], of_floats: bool = False
) -> tuple[Worlds, Run] | None:
    """Where `ask` has no answer for any sizes: the worlds in which it has one, multiples of a step for as few roots as can be.
    What they rely on is logged."""
    asked: list[Worlds] = []

    def answer(steps: dict[str, int]) -> tuple[Worlds, Run] | None:
        worlds = Worlds(scope, varied, steps, of_floats=of_floats)
        if not worlds.are_enough:
            return None
        asked.append(worlds)
        found = ask(worlds)
        return None if found is None else (worlds, found)

    for step in STEPS:
        best = answer(dict.fromkeys(varied, step))
        if best is None:
            continue
        for name in varied if len(varied) > 1 else ():
            best = answer({other: number for other, number in best[0].steps.items() if other != name}) or best
        if len(stepping := best[0].steps) > 1:  # multiples of 8 of two numbers, where multiples of 16 of one will do
            longer = ({name: each} for name, each in product(stepping, LONGER_STEPS) if each > step)
            best = next(filter(None, map(answer, longer)), best)
        worlds, found = best
        if asked[-1] is not worlds and (found := ask(worlds)) is None:  # what it relied on went with the answer that was none
            continue
        worlds.rely_on_steps()
        return worlds, found
    return None
