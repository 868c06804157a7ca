"""Random numbers from a seed: a scalar operation of the element's place, so that they fuse with what reads them.

uniform(seed, 3, [4, 8])   ->   random %seed, 3, (8*i0 + i1)        f32
"""

from __future__ import annotations

import torch

from dynascope.loops.index import linear
from dynascope.loops.layouts import row_major
from dynascope.loops.lower.rules import Lowered, Lowering, rule
from dynascope.loops.nodes import ExternCall, ScalarInput
from dynascope.random_numbers import DRAW_SEED, UNIFORM
from dynascope.random_numbers.operators import draw_seed


@rule(DRAW_SEED)
def seed_of_this_call(call: Lowering) -> Lowered:
    """The Python function itself: through torch's dispatcher the call would cost twice as much."""
    number = ScalarInput(call.new_name(call.node.name), "int")
    name = call.new_name(f"call_{call.node.name}")
    why = "it reads the random generator"
    return Lowered((ExternCall(name, draw_seed, call.arguments, {}, (number,), call.origin, why),), number)


@rule(UNIFORM)
def uniform(call: Lowering) -> Lowered:
    """Numbers by row-major place, whatever the strides: a mask is the same in every layout and in every kernel."""
    seed, offset, sizes = call.arguments[:3]
    nest = call.nest(tuple(sizes))
    key = nest.argument(seed.name, seed.kind) if isinstance(seed, ScalarInput) else nest.number(seed, torch.int64)
    place = nest.index_value(linear(nest.indices, row_major(sizes), 0))
    return call.finish(nest, nest.compute("random", key, nest.number(offset, torch.int64), place))
