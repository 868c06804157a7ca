"""A fusion group as a C++ function: a row at a time (`rows`), many rows side by side (`tiles`), turned blocks (`turned`)."""

from __future__ import annotations

from dynascope.codegen.cpp.nest import choose
from dynascope.codegen.cpp.rows import RowEmitter
from dynascope.codegen.cpp.scatter import ScatterEmitter
from dynascope.codegen.cpp.tiles import TileEmitter, is_tiled
from dynascope.codegen.cpp.turned import TurnEmitter, turned_loads
from dynascope.codegen.kernels import Kernel
from dynascope.loops.nodes import Buffer
from dynascope.schedule.groups import FusionGroup


def emit_kernel(group: FusionGroup, name: str, buffers: dict[str, Buffer], vector_bytes: int) -> Kernel:
    """The kernel of a group, named `name`, for vectors of `vector_bytes`."""
    nest = choose(group, vector_bytes)
    emitter = TileEmitter if is_tiled(nest) else TurnEmitter if turned_loads(nest)[1] else RowEmitter
    return emitter(group, name, buffers, nest).kernel()


def emit_scatter(group: FusionGroup, name: str, buffers: dict[str, Buffer], vector_bytes: int) -> Kernel:
    """The kernel of a scatter's group."""
    return ScatterEmitter(group, name, buffers, choose(group, vector_bytes)).kernel()
