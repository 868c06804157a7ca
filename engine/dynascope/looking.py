"""Compiled code that is looked at and not run for its results: no kernels are built, graphs give tensors without contents.

    options = config.options(looks_only=True)
    compiled(x)              captures, and goes on behind a break as far as that needs none of the program's own code

Whatever would run as it was written ends the call with `NotRun`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

SMALL = 4096
"""Elements of a tensor that are set, so that what asks for its truth gets an answer."""
_content = [0]


class NotRun(BaseException):
    """What comes next only the program's own run can say. No `except Exception` of the program's takes it."""


@contextmanager
def contents(value: int) -> Iterator[None]:
    """What stands in tensors that graphs give: a branch goes one way for 0 and, mostly, the other way for 1."""
    before, _content[0] = _content[0], value
    try:
        yield
    finally:
        _content[0] = before


def stand_in(module: fx.GraphModule) -> Callable[..., list[Any]]:
    """Takes the graph's inputs and gives values of the types and sizes of its outputs."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    outputs = list(output.args[0])

    def call(*inputs: Any) -> list[Any]:
        return [_made(node) if isinstance(node, fx.Node) else node for node in outputs]

    return call


def _made(node: fx.Node) -> Any:
    example, device = node.meta.get("example_value"), node.meta.get("device")
    if not isinstance(example, torch.Tensor):
        return example
    if device is None or device.type != "cpu":
        raise NotRun
    with torch.inference_mode(False), torch.no_grad():
        made = torch.empty_strided(example.size(), example.stride(), dtype=example.dtype)
        if made.numel() <= SMALL:
            made.fill_(_content[0])
    return made.requires_grad_() if example.requires_grad else made
