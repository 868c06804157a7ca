"""Records the ATen operators that a function runs, on meta tensors, as the graph that `grad` would hand over."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from dynascope.report.span import Span, UserFrame
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


def record(
    function: Callable[..., Any], inputs: list[Any], decompositions: dict[Any, Any] | None = None
) -> fx.GraphModule:
    """The ATen graph of `function(*inputs)`; outputs are flattened to a tuple."""
    recorder = _Recorder(function.__code__, decompositions or {})
    metas = [recorder.add_input(value, k) for k, value in enumerate(inputs)]
    with torch.no_grad(), recorder:
        result = function(*metas)
    outputs = result if isinstance(result, (list, tuple)) else (result,)
    recorder.graph.output(tuple(recorder.node_of(o) for o in outputs))
    return fx.GraphModule(torch.nn.Module(), recorder.graph)


class _Recorder(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self, code: Any, decompositions: dict[Any, Any]) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.code = code
        self.decompositions = decompositions
        self.nodes: dict[int, fx.Node] = {}
        self.alive: list[torch.Tensor] = []

    def add_input(self, value: Any, position: int) -> Any:
        name = self.code.co_varnames[position] if position < self.code.co_argcount else f"x{position}"
        node = self.graph.placeholder(name)
        if not isinstance(value, torch.Tensor):
            node.meta["val"] = value
            return value
        meta = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
        node.meta.update(val=meta, device=value.device)
        self._remember(meta, node)
        return meta

    def node_of(self, value: Any) -> Any:
        return self.nodes.get(id(value), value) if isinstance(value, torch.Tensor) else value

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {k: v for k, v in (kwargs or {}).items() if k != "device"}
        if operator in self.decompositions:
            with self:
                return self.decompositions[operator](*args, **kwargs)
        needs_device = any(a.name == "device" for a in operator._schema.arguments) and not _has_tensor(args)
        result = operator(*args, **kwargs, **({"device": "meta"} if needs_device else {}))
        node = self.graph.call_function(operator, tree_map(self.node_of, args), tree_map(self.node_of, kwargs))
        node.meta.update(val=result, device=torch.device("cpu"), user_stack=self._stack())
        if isinstance(result, (list, tuple)):
            for k, item in enumerate(result):
                if isinstance(item, torch.Tensor):
                    part = self.graph.call_function(__import__("operator").getitem, (node, k))
                    part.meta.update(val=item, device=torch.device("cpu"), user_stack=self._stack())
                    self._remember(item, part)
        elif isinstance(result, torch.Tensor):
            self._remember(result, node)
        return result

    def _remember(self, tensor: torch.Tensor, node: fx.Node) -> None:
        self.alive.append(tensor)
        self.nodes[id(tensor)] = node

    def _stack(self) -> tuple[UserFrame, ...]:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        if frame is None:
            return ()
        return (UserFrame(self.code.co_qualname, Span(self.code.co_filename, frame.f_lineno)),)


def _has_tensor(args: Any) -> bool:
    return any(isinstance(a, torch.Tensor) or (isinstance(a, (list, tuple)) and _has_tensor(a)) for a in args)
