"""Each graph that is compiled, at every level: its printed text, run by Python, beside the graph as it was captured.

    with checked_levels() as checked: program()        checked == ["f", ...]     the graphs whose texts gave eager's results
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from dynascope import graph_compiler, levels
from dynascope.grad import bridge
from dynascope.grad.printing import print_graph
from torch import fx


@contextmanager
def checked_levels() -> Iterator[list[str]]:
    """While it lasts, the first call of every compiled graph runs the texts of its levels too."""
    checked: list[str] = []
    original = graph_compiler.compile_whole

    def compile_whole(graph: fx.GraphModule, examples: tuple, options: Any, region: str, clock: Any) -> Any:
        made = original(graph, examples, options, region, clock)
        if made.pair is None:
            return made
        waiting = [True]

        def function(*inputs: Any) -> Any:
            if waiting and torch._C._len_torch_dispatch_stack() == 0:
                waiting.clear()
                state = torch.get_rng_state()
                check(made, inputs)
                torch.set_rng_state(state)
                checked.append(region)
            return made.function(*inputs)

        return dataclasses.replace(made, function=function)

    with mock.patch.object(graph_compiler, "compile_whole", compile_whole):
        yield checked


def check(made: graph_compiler.CompiledGraph, inputs: tuple) -> None:
    expected = outcome(run_text(made.torch_graph, "forward"), inputs)
    eagers = expected[0]
    same(outcome(made.torch_graph, inputs), expected, "torch")
    assert made.pair is not None and made.pair.program is not None
    for level in levels.LEVELS:
        joint = levels.recorded_at(made.pair.program, level)
        pair = joint.pair()
        forward = run_text(pair.forward, "forward")
        backward = run_text(pair.backward, "backward") if pair.backward else None
        same(outcome(bridge(pair, forward, backward), inputs), expected, level)
        same_joint(pair, forward, backward, run_text(joint.graph(), "joint"), inputs, eagers)


def run_text(graph: fx.GraphModule, name: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(print_graph(graph, name)[0], scope)
    return scope[name]


def outcome(function: Callable, inputs: tuple) -> tuple[list, list, list]:
    """Results, the inputs after the call, and gradients."""
    inputs = tuple(_copied(value) for value in inputs)
    torch.manual_seed(3)
    outputs = list(function(*inputs))
    results = [value for value in outputs if isinstance(value, torch.Tensor) and value.requires_grad]
    leaves = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf]
    gradients = []
    if results and leaves:
        tangents = [torch.linspace(-1, 1, value.numel()).to(value.dtype).view(value.shape) for value in results]
        gradients = list(torch.autograd.grad(results, leaves, tangents, allow_unused=True))
    return outputs, list(inputs), gradients


def same(found: tuple, expected: tuple, level: str) -> None:
    for ours, eagers in zip(found, expected, strict=True):
        for a, b in zip(ours, eagers, strict=True):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b, equal_nan=True, msg=lambda text: f"{level}: {text}")  # noqa: B023
            else:
                assert type(a) is type(b) and (a == b or a != a), level


def same_joint(pair: Any, forward: Callable, backward: Callable | None, joint: Callable, inputs: tuple, results: list) -> None:
    """It gives what the program returns, views included; the rest is what the two graphs give that it is cut into."""
    with torch.no_grad():
        torch.manual_seed(3)
        outputs = list(forward(*map(_copied, inputs)))
        tangents = [torch.ones_like(outputs[tangent.output]) for tangent in pair.tangents]
        torch.manual_seed(3)
        found = list(joint(*map(_copied, inputs), *tangents))
        contents = outputs[pair.computed_count : pair.visible_count]
        gradients: list[Any] = [None] * pair.input_count
        if backward is not None:
            saved = [inputs[s.origin.index] if type(s.origin).__name__ == "InputItself" else outputs[s.origin.index] for s in pair.saved]
            gradients = list(backward(*saved, *tangents))
            for twin in pair.twins:
                gradients[twin.index] = gradients[twin.first]
        same(([*results, *contents, *gradients],), (found,), "joint")


def _copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return copy.deepcopy(value.detach()).requires_grad_(value.requires_grad)
