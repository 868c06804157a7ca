"""A graph without kernels: its ATen operators called one after the other. Slower than kernels, with the same results.

run_operators(graph)(x, w)  ->  (result,)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.loops.index import Extent
from dynascope.loops.layouts import result_layouts
from dynascope.runtime.layouts import restrided
from dynascope.sizes import Size, evaluate


def run_operators(graph: fx.GraphModule) -> Callable[..., tuple[Any, ...]]:
    """A callable of the flat inputs that calls each operator. Recorded meta devices become the real ones."""
    steps = [_step(graph, node) for node in graph.graph.nodes if node.op in ("call_function", "get_attr")]
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = output.args[0] if isinstance(output.args[0], (list, tuple)) else (output.args[0],)

    def call(*values: Any) -> tuple[Any, ...]:
        environment: dict[fx.Node, Any] = dict(zip(inputs, values, strict=True))
        for node, step in steps:
            environment[node] = step(environment)
        return tuple(fx.node.map_arg(tuple(results), environment.__getitem__))

    return call


def _step(graph: fx.GraphModule, node: fx.Node) -> tuple[fx.Node, Callable[[dict[fx.Node, Any]], Any]]:
    if node.op == "get_attr":
        value = graph
        for part in node.target.split("."):
            value = getattr(value, part)
        return node, lambda environment: value
    keywords = _with_device(node)

    def step(environment: dict[fx.Node, Any]) -> Any:
        read = environment.__getitem__
        return node.target(*fx.node.map_arg(node.args, read), **fx.node.map_arg(keywords, read))

    def checked(environment: dict[fx.Node, Any]) -> Any:
        result = step(environment)
        strides = _numbers(layout.strides, environment)
        if result.layout is not torch.strided or result.stride() == strides:
            return result
        return restrided(result, _numbers(layout.shape, environment), strides, layout.dtype)

    if not isinstance(node.meta.get("val"), torch.Tensor) or not _is_viewed(node):
        return node, step
    (layout,) = result_layouts(node)
    return node, checked


def _numbers(sizes: tuple[Extent, ...], environment: dict[fx.Node, Any]) -> tuple[int, ...]:
    """Sizes that vary, as they are in this call."""
    if not any(isinstance(size, Size) for size in sizes):
        return sizes
    roots = {str(n.meta["size"]): value for n, value in environment.items() if isinstance(n.meta.get("size"), Size)}
    return tuple(evaluate(size.expression, roots) if isinstance(size, Size) else size for size in sizes)


def _is_viewed(node: fx.Node) -> bool:
    """Whether somebody reads the result by its strides, or in a shape that only those strides allow."""
    targets = (user.target for user in node.users)
    return any(getattr(target, "is_view", False) or target is torch.ops.aten.as_strided.default for target in targets)


def _with_device(node: fx.Node) -> dict[str, Any]:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not any(argument.name == "device" for argument in schema.arguments):
        return dict(node.kwargs)
    given = node.kwargs.get("device")
    is_meta = given is not None and torch.device(given).type == "meta"
    makes = given is None and not any(isinstance(a, fx.Node) for a in node.all_input_nodes)
    device = node.meta.get("device") or torch.device("cpu")
    return {**node.kwargs, "device": device} if is_meta or makes else dict(node.kwargs)
