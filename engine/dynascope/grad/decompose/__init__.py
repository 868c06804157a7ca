"""The decompositions by option; each family of operators has a file of its own."""

from __future__ import annotations

from typing import Any

from dynascope.grad.decompose import creation, foreach, losses, normalize, pointwise, pooling, randomness, reductions
from dynascope.grad.options import GradOptions

CORE = pointwise.TABLE | losses.TABLE | normalize.TABLE | reductions.TABLE | creation.TABLE | foreach.TABLE | pooling.TABLE


def table_for(options: GradOptions) -> dict[Any, Any]:
    """A plain dictionary from operator to `decomposition(builder, *arguments, **keywords)`."""
    table = creation.TABLE if options.level == "aten" else CORE
    return table | randomness.TABLE if options.random == "device" else table
