"""A fusion group as a C++ function: a row at a time (`rows`), or many rows side by side (`tiles`)."""

from __future__ import annotations

from dynascope.codegen.cpp.nest import choose
from dynascope.codegen.cpp.rows import RowEmitter
from dynascope.codegen.cpp.tiles import TileEmitter, is_tiled
from dynascope.codegen.kernels import Kernel
from dynascope.loops.nodes import Buffer
from dynascope.schedule.groups import FusionGroup


def emit_kernel(group: FusionGroup, name: str, buffers: dict[str, Buffer], vector_bytes: int) -> Kernel:
    """The kernel of a group, named `name`, for vectors of `vector_bytes`."""
    nest = choose(group, vector_bytes)
    return (TileEmitter if is_tiled(nest) else RowEmitter)(group, name, buffers, nest).kernel()
