"""What nodes of a graph give with other numbers, each computed once for the numbers that lead to it.

    answers.of(node, {"n": 7, "a": 3}, compute)      calls compute()
    answers.of(node, {"n": 7, "a": 2}, compute)      gives the same, where only n leads to the node

A program with many numbers that vary is asked about each of them by itself, and most of a graph follows from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import fx

from dynascope.sizes import roots_of

ANY = None
"""Names that lead to a node where they are not known: all."""


class ChangesOperand(Exception):
    """An operation changed how what it was given lies in memory (`x.t_()`): others may hold that too."""


class AnswersElsewhere:
    """Of one capture. Where operations change what they are given nothing is shared, each question has tensors of its own."""

    def __init__(self) -> None:
        self.are_shared = True
        self.known: dict[fx.Node, dict[tuple, Any]] = {}
        self.leading: dict[fx.Node, frozenset[str] | None] = {}

    def of(self, node: fx.Node, values: Mapping[str, Any], operands: Iterable[Any], compute: Callable[[], Any]) -> Any:
        if not self.are_shared:
            return compute()
        names = self._leading_to(node)
        key = tuple(values.values()) if names is ANY else tuple((name, value) for name, value in values.items() if name in names)
        found = self.known.setdefault(node, {})
        if key not in found:
            tensors = [each for each in operands if isinstance(each, torch.Tensor)]
            before = _layouts(tensors)
            answer = compute()
            if before != _layouts(tensors):
                self.are_shared = False
                self.known.clear()
                raise ChangesOperand
            found[key] = answer
        return found[key]

    def _leading_to(self, node: fx.Node) -> frozenset[str] | None:
        pending = [node]
        while pending:
            each = pending[-1]
            if each in self.leading:
                pending.pop()
                continue
            unknown = [other for other in each.all_input_nodes if other not in self.leading]
            if unknown:
                pending += unknown
                continue
            parts = [_own_names(each), *(self.leading[other] for other in each.all_input_nodes)]
            known = [part for part in parts if part is not ANY]
            self.leading[each] = frozenset().union(*known) if len(known) == len(parts) else ANY
        return self.leading[node]


def _own_names(node: fx.Node) -> frozenset[str] | None:
    if "late_result" in node.meta:
        return ANY
    extents = (*node.meta.get("sizes", ()), *node.meta.get("strides", ())) if node.op == "placeholder" else ()
    return frozenset(root.name for root in roots_of([node.meta.get("size"), *extents]))


def _layouts(tensors: Iterable[torch.Tensor]) -> list[tuple]:
    with torch._C.DisableTorchFunction():  # a mode for the default device would look at each attribute
        return list(map(_layout, tensors))


def _layout(tensor: torch.Tensor) -> tuple:
    return (tensor.shape, *((tensor.stride(), tensor.storage_offset()) if tensor.layout is torch.strided else ()))
