"""Nodes whose result nobody reads: which must run all the same.

    torch.rand(3)                    advances the generator
    torch.linalg.inv(x)              raises for a singular matrix
    torch._assert_async(ok)          is there to raise
    table[index]                     raises for an index out of range
    x.exp()                          may go

What a node calls is not known by its name: it runs once more on meta tensors, and the schema of each ATen operator that
arrives is asked. An operator of the program's own libraries is taken to do something.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dynascope.capture.operators_called import TORCHS_OWN, operators_called, reads_places

PURE = frozenset(
    {"getitem", "size", "view", "reshape", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze", "detach"}
)


def may_go(node: fx.Node) -> bool:
    """Whether running the node would do nothing but give a result."""
    if node.op in ("placeholder", "get_attr"):
        return True
    if node.op not in ("call_function", "call_method"):
        return False
    if "late" in node.meta and node.target not in (torch._check, "repeat_interleave", torch.repeat_interleave):
        return True
    if (node.target is operator.getitem and not _reads_places(node)) or node.target in PURE:
        return True
    try:
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), _example)
    except ValueError:
        return False
    target = getattr(torch.Tensor, node.target) if node.op == "call_method" else node.target
    called = operators_called(target, arguments, keywords)
    return called is not None and not any(map(_has_effect, called))


def _reads_places(node: fx.Node) -> bool:
    """`table[index]` with a tensor among the indices."""
    return len(node.all_input_nodes) > 1


def _example(node: fx.Node) -> Any:
    example = node.meta.get("example_value")
    if example is None:
        raise ValueError(f"{node} has no example")
    return example


def _has_effect(called: torch._ops.OpOverload) -> bool:
    schema = called._schema
    if torch.Tag.nondeterministic_seeded in called.tags or not schema.returns or called.namespace not in TORCHS_OWN:
        return True
    return reads_places(called)
