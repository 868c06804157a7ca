"""Running a program through `differentiate` with interpreted graphs, and comparing all that can be seen with eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from dynascope.grad import GradOptions, GradPair, bridge, differentiate
from torch import fx
from torch.utils import _pytree as pytree


def graph_of_call(
    function: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[fx.GraphModule, list[torch.Tensor], Any]:
    """(a graph that calls `function` once, its tensor inputs, how its outputs nest)."""
    graph, inputs, nodes = fx.Graph(), [], {}

    def lift(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in nodes:
            nodes[id(leaf)] = graph.placeholder(f"x{len(inputs)}")
            inputs.append(leaf)
        return nodes[id(leaf)]

    args, kwargs = pytree.tree_map(lift, (args, kwargs))
    graph.output(graph.call_function(function, tuple(args), kwargs))
    return fx.GraphModule({}, graph), inputs, None


def flat_graph(graph: fx.GraphModule, outputs: Any) -> fx.GraphModule:
    """The same graph, returning the flat leaves of what eager returned nested."""
    node = next(n for n in graph.graph.nodes if n.op == "output")
    leaves = []
    for path, leaf in pytree.tree_flatten_with_path(outputs)[0]:
        value = node.args[0]
        with graph.graph.inserting_before(node):
            for key in path:
                index = getattr(key, "idx", getattr(key, "key", getattr(key, "name", None)))
                value = (
                    graph.graph.call_function(getattr, (value, index))
                    if isinstance(index, str) and hasattr(outputs, index)
                    else graph.graph.call_function(__import__("operator").getitem, (value, index))
                )
        leaves.append(value)
        del leaf
    node.args = (tuple(leaves),)
    graph.recompile()
    return graph


def fresh(inputs: list[Any]) -> list[Any]:
    """Copies with the same strides and requires_grad."""
    return [
        copy.deepcopy(i.detach()).requires_grad_(i.requires_grad) if isinstance(i, torch.Tensor) else i for i in inputs
    ]


def compile_graph(graph: fx.GraphModule, inputs: list[Any], options: GradOptions | None = None) -> tuple[GradPair, Any]:
    pair = differentiate(graph, inputs, options or GradOptions())
    return pair, bridge(pair, pair.forward, pair.backward)


def check(
    function: Callable[..., Any],
    inputs: list[Any],
    *,
    leaves: bool = True,
    tolerance: float = 1e-5,
    layouts: str = "all",
) -> GradPair:
    """Trace `function` with fx, and compare: outputs, their metadata and aliasing, mutated inputs, gradients."""
    graph = fx.symbolic_trace(function)
    return check_graph(graph, function, inputs, leaves=leaves, tolerance=tolerance, layouts=layouts)


def check_graph(
    graph: Any, function: Any, inputs: list[Any], *, leaves: bool = True, tolerance: float = 1e-5, layouts: str = "all"
) -> GradPair:
    ours, eager = _prepared(inputs, leaves), _prepared(inputs, leaves)
    pair, compiled = compile_graph(graph, ours)
    torch.manual_seed(7)
    found = compiled(*ours)
    torch.manual_seed(7)
    expected = _flat(function(*eager))
    compare_results(list(found), expected, ours, eager, tolerance)
    wanted = [i for i, given in enumerate(inputs) if isinstance(given, torch.Tensor) and given.requires_grad]
    compare_gradients(
        list(found), expected, [_leaves(ours)[i] for i in wanted], [_leaves(eager)[i] for i in wanted], tolerance
    )
    return pair


def _prepared(inputs: list[Any], leaves: bool) -> list[Any]:
    copies = fresh(inputs)
    if leaves:
        return copies
    prepared = []
    for leaf in copies:
        value = leaf
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            value = leaf * 1
            value.leaf = leaf
        prepared.append(value)
    return prepared


def _leaves(inputs: list[Any]) -> list[Any]:
    return [getattr(i, "leaf", i) for i in inputs]


def _flat(outputs: Any) -> list[Any]:
    return (
        list(pytree.tree_leaves(outputs))
        if not isinstance(outputs, (tuple, list))
        else pytree.tree_flatten(outputs, lambda x: x is None)[0]
    )


def compare_results(
    found: list[Any], expected: list[Any], ours: list[Any], eager: list[Any], tolerance: float = 1e-5
) -> None:
    assert len(found) == len(expected), f"{len(found)} outputs, eager has {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        compare_value(a, b, f"output {i}", tolerance)
        if isinstance(b, torch.Tensor):
            assert a.requires_grad == b.requires_grad, (
                f"output {i}: requires_grad {a.requires_grad}, eager {b.requires_grad}"
            )
    for i, (a, b) in enumerate(zip(ours, eager, strict=True)):
        if isinstance(b, torch.Tensor):
            compare_value(a, b, f"input {i} afterwards", tolerance)
    assert _sharing([*found, *ours]) == _sharing([*expected, *eager]), (
        "outputs and inputs share memory otherwise than in eager"
    )


def compare_value(a: Any, b: Any, name: str, tolerance: float) -> None:
    if not isinstance(b, torch.Tensor):
        assert type(a) is type(b) and (a == b or a != a), f"{name}: {a!r}, eager {b!r}"
        return
    assert isinstance(a, torch.Tensor), f"{name}: {a!r}, eager a tensor"
    assert a.dtype is b.dtype, f"{name}: {a.dtype}, eager {b.dtype}"
    assert a.shape == b.shape, f"{name}: {list(a.shape)}, eager {list(b.shape)}"
    assert a.stride() == b.stride(), f"{name}: strides {a.stride()}, eager {b.stride()}"
    torch.testing.assert_close(
        a.detach(), b.detach(), rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m: f"{name}: {m}"
    )


def compare_gradients(
    found: list[Any],
    expected: list[Any],
    ours: list[Any],
    eager: list[Any],
    tolerance: float = 1e-5,
    layouts: str = "all",
) -> None:
    gradients = [_gradients(outputs, inputs) for outputs, inputs in ((found, ours), (expected, eager))]
    assert _sharing(gradients[0]) == _sharing(gradients[1]), "gradients share memory otherwise than in eager"
    for i, (a, b) in enumerate(zip(*gradients, strict=True)):
        assert (a is None) == (b is None), (
            f"gradient {i}: {a is not None and 'a tensor' or None}, eager {b is not None and 'a tensor' or None}"
        )
        if b is not None:
            if layouts == "outputs":
                a, b = a.contiguous(), b.contiguous()
            compare_value(a, b, f"gradient {i}", tolerance * 5)


def _gradients(outputs: list[Any], inputs: list[Any]) -> list[Any]:
    wanted = [i for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
    roots = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    if not wanted or not roots:
        return [None] * len(wanted)
    generator = torch.Generator().manual_seed(3)
    tangents = [
        torch.empty_like(r).copy_(torch.randn(r.shape, generator=generator, dtype=torch.float64)) for r in roots
    ]
    return list(torch.autograd.grad(roots, wanted, tangents, allow_unused=True))


def _sharing(values: list[Any]) -> list[int]:
    """For each tensor, the first one that shares its storage."""
    first: dict[int, int] = {}
    tensors = [v for v in values if isinstance(v, torch.Tensor) and v.numel() and v.layout is torch.strided]
    return [first.setdefault(t.untyped_storage().data_ptr(), i) for i, t in enumerate(tensors)]
