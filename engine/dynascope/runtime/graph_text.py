"""All of an ATen graph that the stages after differentiation read, as text: graphs of equal texts become equal kernels.

text_of(graph)  ->  "arg0_1|placeholder||f32[4, 8]...", or None where something in it has no text

None are graphs with sizes that vary (kernels then depend on what is known of these), graphs that hold tensors, and arguments of
kinds that no operator of torch's takes.
"""

from __future__ import annotations

import os
import types
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from dynascope.codegen.library_calls import is_torchs_own
from dynascope.report.span import UserStack
from dynascope.runtime.operator_texts import NoText, text_of_operator

PRINTED: frozenset[type] = frozenset(
    (type(None), bool, int, float, complex, str, torch.dtype, torch.layout, torch.memory_format, torch.device)
)
"""Their `repr` says all of them."""


def text_of(graph: fx.GraphModule) -> str | None:
    try:
        return _Writer().graph(graph)
    except NoText:
        return None


class _Writer:
    def __init__(self) -> None:
        self.stacks: dict[int, str] = {}
        self.files: dict[str, str] = {}

    def graph(self, graph: fx.GraphModule) -> str:
        lines = [getattr(graph, "dynascope_name", "")]
        lines += map(self.node, graph.graph.nodes)
        return "\n".join([*lines, *self.files.values()])

    def node(self, node: fx.Node) -> str:
        meta = node.meta
        if node.op == "get_attr" or meta.get("layout") is not None or meta.get("size") is not None:
            raise NoText
        keywords = self.value(node.kwargs) if node.kwargs else ""
        stack = meta.get("user_stack")
        return (
            f"{node.name}|{self.target(node)}|{self.value(node.args)}|{keywords}|{self.value(meta.get('val'))}|{meta.get('device')}|"
            f"{meta.get('misaligned')}|{meta.get('reader')}|{meta.get('piece')}|{self.stack(stack) if stack else ''}"
        )

    def target(self, node: fx.Node) -> str:
        target: Any = node.target
        if node.op != "call_function":
            return f"{node.op} {target}"
        if isinstance(target, OpOverload):
            return str(target) if is_torchs_own(target) else str(target._schema)
        if isinstance(target, types.BuiltinFunctionType):
            return f"{target.__module__}:{target.__qualname__}"
        return " ".join(text_of_operator(target))

    def value(self, value: Any) -> str:
        kind = type(value)
        if kind is fx.Node:
            return "%" + value.name
        if kind in PRINTED:
            return repr(value)
        if isinstance(value, torch.Tensor):
            return (
                f"{value.dtype}{tuple(value.shape)}{value.stride()}{value.storage_offset()}{value.layout}{value.device}"
                f"{value.is_neg()}{value.dtype.is_complex and value.is_conj()}"
            )
        if isinstance(value, (tuple, list)):
            return f"{'[' if isinstance(value, list) else '('}{','.join(map(self.value, value))}]"
        if isinstance(value, dict):
            return "{" + ",".join(f"{name}={self.value(item)}" for name, item in value.items()) + "}"
        if kind is slice:
            return f"slice({self.value((value.start, value.stop, value.step))})"
        raise NoText

    def stack(self, stack: UserStack) -> str:
        """Kernels and wrappers quote the user's lines."""
        known = self.stacks.get(id(stack))
        if known is None:
            known = self.stacks[id(stack)] = repr(stack)
            for frame in stack:
                if frame.span.file not in self.files:
                    self.files[frame.span.file] = _state_of(frame.span.file)
        return known


def _state_of(file: str) -> str:
    try:
        facts = os.stat(file)
    except OSError:
        return f"{file} -"
    return f"{file} {facts.st_mtime_ns} {facts.st_size}"
