"""The two halves of a recording as fx graphs, with names, types and places; and the description of their ends."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dynascope.grad.options import GradOptions
from dynascope.grad.outputs import Results
from dynascope.grad.pair import Computed, GradPair, InputItself, Mutation, Saved, Tangent
from dynascope.grad.partition import Parts, root_of
from dynascope.grad.tape import NOWHERE, Number, Step, Tape, Value, replace
from dynascope.report.facts import Phase

aten = torch.ops.aten


def emit_graphs(
    tape: Tape,
    inputs: list[Any],
    results: Results,
    tangents: list[Value],
    gradients: list[Value | None],
    parts: Parts,
    options: GradOptions,
) -> GradPair:
    forward = _GraphWriter(tape, "forward")
    for value in inputs:
        forward.placeholder(value)
    for step in parts.forward:
        forward.step(step)
    visible = [*results.computed, *(mutated.value for mutated in results.mutated)]
    nodes = forward.distinct_outputs(visible)
    mutated_inputs = {mutated.index for mutated in results.mutated}
    saved, extra = _place_saved(forward, parts.saved, visible, inputs, mutated_inputs, len(results.computed))
    forward_module = forward.finish([*nodes, *extra], "Forward")
    return GradPair(
        forward=forward_module,
        backward=_emit_backward(tape, parts, tangents, gradients, forward.names),
        region=options.region,
        input_count=len(inputs),
        outputs=tuple(results.outputs),
        mutations=tuple(
            Mutation(m.index, len(results.computed) + i, m.records_history, m.is_hidden)
            for i, m in enumerate(results.mutated)
        ),
        computed_count=len(results.computed),
        saved=tuple(saved),
        tangents=tuple(
            Tangent(output, tangent.layout, sources)
            for output, tangent, sources in zip(results.differentiable_outputs, tangents, results.sources, strict=False)
        ),
        gradient_inputs=tuple(i for i, gradient in enumerate(gradients) if gradient is not None),
        inputs_require_grad=results.inputs_require_grad,
    )


def _place_saved(
    forward: _GraphWriter,
    values: list[Value | Number],
    visible: list[Any],
    inputs: list[Any],
    mutated: set[int],
    computed_count: int,
) -> tuple[list[Saved], list[fx.Node]]:
    """Where each saved value is found after the forward graph ran, and the forward outputs added for it."""
    saved, extra = [], []
    input_numbers = {id(value): i for i, value in enumerate(inputs)}
    output_numbers = {id(value): i for i, value in enumerate(visible[:computed_count])}
    for value in values:
        name = forward.name_of(value)
        layout = value.layout if isinstance(value, Value) else None
        number = input_numbers.get(id(value))
        if number is not None and number not in mutated:
            saved.append(Saved(InputItself(number), name, layout))
        elif number is None and id(value) in output_numbers:
            saved.append(Saved(Computed(output_numbers[id(value)]), name, layout))
        else:
            saved.append(Saved(Computed(len(visible) + len(extra)), name, layout))
            extra.append(forward.copy(value) if number is not None else forward.node(value))
    return saved, extra


def _emit_backward(
    tape: Tape, parts: Parts, tangents: list[Value], gradients: list[Value | None], names: dict[int, str]
) -> fx.GraphModule | None:
    if not tangents:
        return None
    backward = _GraphWriter(tape, "backward", names)
    for value in [*parts.saved, *tangents]:
        backward.placeholder(value)
    for step in parts.backward:
        backward.step(step)
    outputs = [None if gradient is None else backward.node(gradient) for gradient in gradients]
    return backward.finish(outputs, "Backward")


class _GraphWriter:
    """One fx graph in the making. `names` carries the forward graph's names into the backward graph."""

    def __init__(self, tape: Tape, phase: Phase, names: dict[int, str] | None = None) -> None:
        self.tape = tape
        self.phase = phase
        self.graph = fx.Graph()
        self.nodes: dict[int, fx.Node] = {}
        self.names = dict(names or {})
        self.constants: dict[str, torch.Tensor] = {}

    def placeholder(self, value: Any) -> None:
        name = self.names.get(id(value)) or getattr(value, "name", "") or "unused"
        node = self.graph.create_node("placeholder", name, name=name)
        self._describe(node, value, NOWHERE)
        if isinstance(value, (Value, Number)):
            self._remember(value, node)

    def step(self, step: Step) -> None:
        name = getattr(step.target, "__name__", "step").split(".")[0].strip("_")
        single = len(step.outputs) == 1 and not _returns_many(step.target)
        hint = (self.names.get(id(step.outputs[0])) if single else None) or name
        arguments, keywords = replace(step.arguments, self._operand), replace(step.keywords, self._operand)
        node = self.graph.create_node("call_function", step.target, arguments, keywords, name=hint)
        if step.reader:
            node.meta["reader"] = step.reader
        if single:
            self._describe(node, step.outputs[0], step.origin)
            self._remember(step.outputs[0], node)
            return
        self._describe(node, None, step.origin)
        node.meta["val"] = tuple(_example(output) for output in step.outputs)
        for index, output in enumerate(step.outputs):
            if output is not None:
                item = self.graph.create_node("call_function", operator.getitem, (node, index), name=f"{name}_{index}")
                self._describe(item, output, step.origin)
                self._remember(output, item)

    def node(self, value: Any) -> fx.Node:
        node = self.nodes.get(id(value))
        return self._constant(value) if node is None else node

    def name_of(self, value: Any) -> str:
        return self.node(value).name

    def copy(self, value: Any) -> fx.Node:
        node = self.graph.create_node("call_function", aten.clone.default, (self.node(value),), name="clone")
        self._describe(node, value, NOWHERE)
        return node

    def distinct_outputs(self, values: list[Any]) -> list[fx.Node]:
        """The nodes of `values`, with a copy where eager returns memory of its own but the value lies in other memory."""
        given: set[fx.Node] = set()
        nodes = []
        for value in values:
            node = self.node(value)
            root = root_of(node)
            is_own = root not in given and root.op == "call_function" and _count(root) == _count(node)
            if not is_own and isinstance(value, Value):
                node = root = self.copy(value)
            given.add(root)
            nodes.append(node)
        return nodes

    def finish(self, outputs: list[Any], name: str) -> fx.GraphModule:
        self.graph.output(tuple(outputs))
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target is operator.getitem and not node.users:
                self.graph.erase_node(node)
        return fx.GraphModule(self.constants, self.graph, name)

    def _operand(self, leaf: Any) -> Any:
        return self.node(leaf) if isinstance(leaf, (Value, Number)) else leaf

    def _constant(self, value: Any) -> fx.Node:
        constant = self.tape.constants[value.name]
        self.constants[value.name] = constant
        node = self.graph.create_node("get_attr", value.name, name=value.name)
        self._describe(node, value, NOWHERE)
        self._remember(value, node)
        return node

    def _remember(self, value: Any, node: fx.Node) -> None:
        self.nodes[id(value)] = node
        self.names.setdefault(id(value), node.name)

    def _describe(self, node: fx.Node, value: Any, origin: Any) -> None:
        node.meta["val"] = _example(value)
        node.meta["device"] = value.device if isinstance(value, Value) else None
        node.meta["user_stack"] = origin.user_stack
        node.meta["stack_trace"] = origin.stack_trace
        node.meta["torch_node"] = origin.node
        node.meta["phase"] = self.phase


def _example(value: Any) -> Any:
    if isinstance(value, Value):
        return value.meta()
    return value.example if isinstance(value, Number) else value


def _count(node: fx.Node) -> int | None:
    value = node.meta.get("val")
    return value.numel() if isinstance(value, torch.Tensor) else None


def _returns_many(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and (len(schema.returns) > 1 or str(schema.returns[0].type).startswith("List"))
