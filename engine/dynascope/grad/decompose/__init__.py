"""The decompositions by option; each family of operators has a file of its own."""

from __future__ import annotations

from typing import Any

from dynascope.grad.decompose import (
    creation,
    foreach,
    losses,
    normalize,
    places,
    pointwise,
    pooling,
    randomness,
    reductions,
)
from dynascope.grad.decompose.complexes import with_complexes
from dynascope.grad.options import GradOptions

CORE = pointwise.TABLE | losses.TABLE | normalize.TABLE | reductions.TABLE | creation.TABLE
CORE |= foreach.TABLE | pooling.TABLE | places.TABLE


def table_for(options: GradOptions, has_complexes: bool = False) -> dict[Any, Any]:
    """A plain dictionary from operator to `decomposition(builder, *arguments, **keywords)`. Those of complex numbers cost every other
    operator a look at its operands: they are there where the program has some."""
    table = creation.TABLE if options.level == "aten" else with_complexes(CORE) if has_complexes else CORE
    return table | randomness.TABLE if options.random == "device" else table
