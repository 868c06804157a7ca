"""The parts of a graph whose results lead to one another, computed by one forward graph: kernels read once what several parts read.

    part 0    c = f * c0 + i * g      forward 0    inputs -> c, what backward 0 reads
    part 1    h = o * tanh(c)         forward 1    c, o   -> h, what backward 1 reads
    together                                       inputs -> c, ..., h, ...       and then a node of autograd's for each part

Autograd finds each result where eager has it, because each part's node is given what its own forward graph would have made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.layout_builder import LayoutBuilder
from dynascope.grad.pair import Computed, GradPair, InputItself, Output, ViewOf
from dynascope.grad.reasons import DifferentiationRefused
from dynascope.grad.second_derivative import draws_numbers
from dynascope.grad.tape import Tape, Value, layout_of, replace, sizes_in
from dynascope.grad.views import ViewRecipe
from dynascope.graph_parts import Part, results_of
from dynascope.meta_kernels.graph_modules import UnwrittenGraphModule
from dynascope.sizes import Size, hint_of
from dynascope.sizes.size import expression_of

aten = torch.ops.aten


@dataclass(frozen=True)
class JointForward:
    """`inputs` are nodes of the whole graph; `places` says which of the outputs are those of each part's own forward graph."""

    graph: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    places: tuple[slice, ...]


class HandedOut:
    """What one call has computed, until each part has taken its own. Calls may lie in each other (hooks on what is saved run the
    program's code) and run in several threads."""

    def __init__(self, run: Callable[..., tuple], joint: JointForward) -> None:
        self.run = run
        self.inputs = joint.inputs
        self.places = joint.places
        self.of_thread = threading.local()

    def begin(self, *inputs: Any) -> None:
        with torch.no_grad():
            outputs = self.run(*inputs)
        waiting = [outputs[place] for place in self.places]
        try:
            self.of_thread.calls.append(waiting)
        except AttributeError:
            self.of_thread.calls = [waiting]

    def of_part(self, at: int) -> Callable[..., tuple]:
        """In the place of that part's forward graph."""

        def take(*inputs: Any) -> tuple:
            waiting = self.of_thread.calls[-1]
            own, waiting[at] = waiting[at], ()
            return own

        return take

    def end(self) -> None:
        self.of_thread.calls.pop()


def joint_forward(graph: fx.GraphModule, parts: Sequence[Part], pairs: Sequence[GradPair]) -> JointForward | None:
    """None where a part writes to what it is given, draws numbers (a second derivative draws them again, from where its node began), or is
    given what no operator makes of another part's values."""
    if any(pair.mutations or pair.counted or draws_numbers(pair) for pair in pairs):
        return None
    made = _Joining()
    given = {node for part in parts for node in part.inputs if node.op == "placeholder"}
    inputs = tuple(node for node in graph.graph.nodes if node in given)
    for node in inputs:
        part, pair = next(each for each in zip(parts, pairs, strict=True) if node in each[0].inputs)
        made.known[node] = made.graph.node_copy(_placeholders(pair)[part.inputs.index(node)])
    places = []
    for part, pair in zip(parts, pairs, strict=True):
        if not all(map(made.fits, part.inputs, _placeholders(pair))):
            return None
        begin = len(made.outputs)
        made.append(part, pair)
        places.append(slice(begin, len(made.outputs)))
    made.graph.output(tuple(made.outputs))
    return JointForward(UnwrittenGraphModule(made.constants, made.graph, "Forward"), inputs, tuple(places))


class _Joining:
    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.known: dict[fx.Node, fx.Node] = {}
        """For the whole graph's nodes that a part is given."""
        self.outputs: list[fx.Node] = []
        self.constants: dict[str, torch.Tensor] = {}

    def fits(self, node: fx.Node, placeholder: fx.Node) -> bool:
        """Whether there is a value that lies as the part takes it to lie."""
        value = self.known.get(node)
        return value is not None and _described(value) is not None and _described(value) == _described(placeholder)

    def append(self, part: Part, pair: GradPair) -> None:
        copies = dict(zip(_placeholders(pair), (self.known[node] for node in part.inputs), strict=True))
        for node in pair.forward.graph.nodes:
            if node.op == "get_attr":
                copies[node] = self._constant(getattr(pair.forward, node.target), node)
            elif node.op == "call_function":
                copies[node] = self.graph.node_copy(node, copies.__getitem__)
        outputs = [copies[node] for node in results_of(pair.forward)]
        self.outputs += outputs
        for node, output in zip(part.outputs, pair.outputs, strict=True):
            value = self._value(output, outputs, part)
            if value is not None:
                self.known[node] = value

    def _constant(self, tensor: torch.Tensor, node: fx.Node) -> fx.Node:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = tensor
        made = self.graph.create_node("get_attr", name, name=name)
        made.meta = dict(node.meta)
        return made

    def _value(self, output: Output, outputs: Sequence[fx.Node], part: Part) -> fx.Node | None:
        if isinstance(output, Computed):
            return outputs[output.index]
        if isinstance(output, InputItself):
            return self.known[part.inputs[output.index]]
        if not isinstance(output, ViewOf):
            return None
        value = self._value(output.base, outputs, part)
        for recipe in output.recipes:
            if value is None or recipe.operator is aten.as_strided.default:  # whose offset is counted from another tensor's
                return None
            value = self._view(value, recipe)
        return value

    def _view(self, base: fx.Node, recipe: ViewRecipe) -> fx.Node | None:
        """None where it is cut by numbers that no node is, or torch alone knows how it lies."""
        numbers = {node.meta["size"].expression: node for node in self.graph.nodes if "size" in node.meta}
        if not all(size.expression in numbers for size in sizes_in(recipe.arguments)):
            return None
        layout = base.meta.get("layout") or layout_of(base.meta["val"], base.meta["device"])
        try:
            layout = recipe.apply(LayoutBuilder(Tape(), {}), Value(layout)).layout
        except DifferentiationRefused:
            return None
        arguments = replace(recipe.arguments, lambda leaf: numbers[leaf.expression] if isinstance(leaf, Size) else leaf)
        name = recipe.operator.name().removeprefix("aten::").split(".")[0]
        view = self.graph.create_node("call_function", recipe.operator, (base, *arguments), name=name)
        view.meta = {**base.meta, "val": recipe.operator(base.meta["val"], *replace(recipe.arguments, hint_of))}
        view.meta.pop("layout", None)
        if layout.varies:
            view.meta["layout"] = layout
        return view


def _described(node: fx.Node) -> tuple[Any, ...] | None:
    """What a part relies on of what it is given: which number it is, or how a tensor lies."""
    if "size" in node.meta:
        return (node.meta["size"].expression,)
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    layout = node.meta.get("layout")
    lies = (value.shape, value.stride()) if layout is None else (layout.sizes, layout.strides)
    return (*(tuple(map(expression_of, each)) for each in lies), value.dtype)


def _placeholders(pair: GradPair) -> list[fx.Node]:
    return [node for node in pair.forward.graph.nodes if node.op == "placeholder"]
