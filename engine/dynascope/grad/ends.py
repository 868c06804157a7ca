"""What each value is that a graph returns, in words, for who reads its text.

    # results: torch.ops.aten.permute.default(mul, [1, 0]), mul
    # saved for the backward pass: x, w
    return (mul,)

Views are made outside of the forward graph, of what it returns, so that they share memory: the words say of what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dynascope.grad.outputs import Results
from dynascope.grad.pair import Computed, Constant, Expression, GradPair, InputItself, Output, Saved, ViewOf
from dynascope.grad.printing import text_of
from dynascope.grad.views import ViewRecipe


def forward_ends(pair: GradPair, graph: fx.GraphModule) -> Iterator[str]:
    """Nothing where the graph returns the program's results and no more."""
    inputs, values = _inputs(graph), _returned(graph)
    written = {mutation.input: values[mutation.output] for mutation in pair.mutations}
    if pair.outputs != tuple(map(Computed, range(len(values)))):
        yield _line("results", (_result(output, inputs, values) for output in pair.outputs))
    yield from _contents(written, inputs)
    if pair.backward is not None:
        yield _line("saved for the backward pass", (_saved(saved, inputs, values) for saved in pair.saved))


def backward_ends(pair: GradPair, graph: fx.GraphModule) -> Iterator[str]:
    inputs = _inputs(pair.forward)
    twins = {twin.index: f"{inputs[twin.index]} as {inputs[twin.first]}" for twin in pair.twins}
    yield from _tangents(graph)
    yield from _gradients(inputs, _returned(graph), twins, _going_past(pair.outputs))


def joint_ends(results: Results, graph: fx.GraphModule, names: tuple[str, ...]) -> Iterator[str]:
    """`names` are the inputs'."""
    values, count = _returned(graph), len(results.outputs)
    behind = count + len(results.mutated)
    if len(values) == count:
        return
    yield _line("results", values[:count])
    yield from _contents({m.index: value for m, value in zip(results.mutated, values[count:behind], strict=True)}, list(names))
    yield from _tangents(graph)
    yield from _gradients(list(names), values[behind:], {}, _going_past(results.outputs))


def _contents(written: dict[int, str], inputs: list[str]) -> Iterator[str]:
    if written:
        yield _line("new contents", (f"{value} of {inputs[at]}" for at, value in written.items()))


def _tangents(graph: fx.GraphModule) -> Iterator[str]:
    words = [f"{node.name} of {node.meta['gradient_of']}" for node in graph.graph.nodes if "gradient_of" in node.meta]
    if words:
        yield _line("gradients that come in", words)


def _going_past(outputs: Sequence[Output]) -> frozenset[int]:
    """Inputs that are results themselves, or have views that are: the gradients of these results do not come through the graph."""
    bases = ((each.base if isinstance(each, ViewOf) and each.detached == "no" else each) for each in outputs)
    return frozenset(base.index for base in bases if isinstance(base, InputItself))


def _gradients(inputs: list[str], values: list[str], twins: dict[int, str], past: frozenset[int]) -> Iterator[str]:
    words = {at: f"{value} of {inputs[at]}" for at, value in enumerate(values) if value != "None"} | twins
    for at in past & words.keys():
        words[at] += f" (but for results that are {inputs[at]} or views of it)"
    if words:
        yield _line("gradients", (words[at] for at in sorted(words)))


def _line(what: str, values: Iterable[str]) -> str:
    return f"{what}: {', '.join(values) or 'none'}"


def _inputs(graph: fx.GraphModule) -> list[str]:
    return [node.name for node in graph.graph.nodes if node.op == "placeholder"]


def _returned(graph: fx.GraphModule) -> list[str]:
    return [text_of(value) for value in graph.graph.output_node().args[0]]


def _saved(saved: Saved, inputs: list[str], values: list[str]) -> str:
    return (inputs if isinstance(saved.origin, InputItself) else values)[saved.origin.index]


def _result(output: Output, inputs: list[str], values: list[str]) -> str:
    if isinstance(output, Computed):
        return values[output.index]
    if isinstance(output, InputItself):
        return inputs[output.index]
    if isinstance(output, Expression):
        return str(output.size)
    if isinstance(output, Constant):
        return "a tensor of the program's" if isinstance(output.value, torch.Tensor) else text_of(output.value)
    text = _result(output.base, inputs, values)
    for recipe in output.recipes:
        text = _viewed(text, recipe)
    return f"{text}.detach()" if output.detached != "no" else text


def _viewed(text: str, recipe: ViewRecipe) -> str:
    arguments: tuple[Any, ...] = recipe.arguments
    if recipe.operator is torch.ops.aten.as_strided.default and len(arguments) > 3:
        sizes, strides, offset, _, root_offset = arguments
        arguments = sizes, strides, offset - root_offset
    return f"torch.ops.{recipe.operator}({', '.join([text, *map(text_of, arguments)])})"
