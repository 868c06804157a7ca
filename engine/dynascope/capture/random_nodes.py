"""Which nodes of a graph draw random numbers.

    dropout(x, 0.5)      draws; so does a node whose own graph holds one that does
"""

from __future__ import annotations

import functools

import torch
from torch import fx

from dynascope.autograd_functions import HOLDS_GRAPH
from dynascope.capture.generator_calls import GeneratorCall
from dynascope.capture.host_draws import HostDraw
from dynascope.capture.raising import operator_name

DRAWS = (
    "rand",
    "dropout",
    "bernoulli",
    "normal",
    "multinomial",
    "uniform",
    "exponential",
    "geometric",
    "cauchy",
    "poisson",
)
DRAWS += ("gumbel", "rrelu", "attention", "binomial", "gamma", "dirichlet")
"""Parts of the names of operators that draw random numbers."""


def draws_numbers(node: fx.Node) -> bool:
    if node.op not in ("call_function", "call_method"):
        return False
    if isinstance(node.target, (HostDraw, GeneratorCall)):
        return True
    if isinstance(node.target, HOLDS_GRAPH):
        return any(map(draws_numbers, node.target.forward.graph.nodes))
    return isinstance(node.target, torch._ops.OpOverload) or _is_draw(operator_name(node))


@functools.cache
def _is_draw(name: str) -> bool:
    return any(part in name for part in DRAWS)
