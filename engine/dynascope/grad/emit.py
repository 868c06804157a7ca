"""The two halves of a recording as fx graphs, with names, types and places; and the description of their ends."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.grad.gradients import Gradients
from dynascope.grad.joint_results import joint_results
from dynascope.grad.outputs import Results
from dynascope.grad.pair import (
    Computed,
    GradPair,
    InputItself,
    Mutation,
    PartialBackward,
    Saved,
    Tangent,
    Twin,
    Watched,
)
from dynascope.grad.partition import Parts, root_of
from dynascope.grad.program import Program, Recorded
from dynascope.grad.tape import NOWHERE, Layout, Number, Step, Tape, Value, meta_tensor, names_of, replace
from dynascope.meta_kernels.graph_modules import UnwrittenGraphModule, add_node, placeholder
from dynascope.report.facts import Phase
from dynascope.sizes import Root, Size, apply, hint_of, is_constant
from dynascope.sizes.building import build, told_apart
from dynascope.sizes.expression import of_root

aten = torch.ops.aten


def emit_graphs(
    program: Program, recorded: Recorded, tangents: list[Value], gradients: Gradients, parts: Parts, steps: list[Step]
) -> GradPair:
    """`steps` are those of the forward pass as they were recorded, before any was left out."""
    tape, inputs, results = recorded.recorder.tape, recorded.values, recorded.results
    forward = _GraphWriter(tape, "forward")
    for value in inputs:
        forward.placeholder(value)
    for step in parts.forward:
        forward.step(step)
    visible = [*results.computed, *(mutated.value for mutated in results.mutated)]
    nodes = forward.distinct_outputs(visible)
    saved, extra = _place_saved(forward, parts.saved, results, nodes, inputs, steps)
    forward_module = forward.finish([*nodes, *extra], "Forward")
    part = emit_backward(tape, parts, tangents, gradients, forward.names, results) if tangents else None
    return GradPair(
        forward=forward_module,
        backward=part.graph if part else None,
        region=program.options.region,
        input_count=len(inputs),
        outputs=tuple(results.outputs),
        mutations=tuple(
            Mutation(m.index, len(results.computed) + i, m.records_history, m.count)
            for i, m in enumerate(results.mutated)
        ),
        computed_count=len(results.computed),
        saved=tuple(saved),
        tangents=tuple(
            Tangent(output, tangent.layout, place)
            for output, tangent, place in zip(results.differentiable_outputs, tangents, results.places, strict=False)
        ),
        gradient_inputs=tuple(i for i, gradient in enumerate(gradients.values) if gradient is not None),
        inputs_require_grad=results.inputs_require_grad,
        roots={name: at for at, given in enumerate(inputs) if isinstance(given, Size) for name in names_of([given])},
        twins=part.twins if part else (),
        viewed=tuple(sorted(i for i in gradients.viewed if program.inputs[i].is_leaf)) if part else (),
        watched=_watched(results, saved) if part else (),
        kept_outputs=tuple((i, *place) for i, place in sorted(results.kept_outputs.items())),
        functions=tuple((i, *place) for i, place in sorted(results.functions.items())),
        counted=tuple(results.counted),
        versions=tuple(sorted(results.versions.items())),
        program=program,
        steps=tuple(step.target for step in steps) if tangents else (),
    )


def _place_saved(
    forward: _GraphWriter,
    values: list[Value | Number | Size],
    results: Results,
    visible: list[fx.Node],
    inputs: list[Any],
    steps: list[Step],
) -> tuple[list[Saved], list[fx.Node]]:
    """Where each saved value is found after the forward graph ran, and the forward outputs added for it.

    What the program can change before the backward pass, though eager would not mind, is saved as a copy: a result, and what a result
    is a view of.
    """
    saved, extra = [], []
    safe = results.kept_inputs - {mutated.index for mutated in results.mutated}
    visible_count = len(results.computed) + len(results.mutated)
    input_numbers = {id(value): i for i, value in enumerate(inputs)}
    output_numbers = {id(value): i for i, value in enumerate(results.computed)}
    step_numbers = {id(step): i for i, step in enumerate(steps)}
    changeable = {root_of(node) for i, node in enumerate(visible[: len(results.computed)]) if i not in results.kept_outputs}
    for value in values:
        name = forward.name_of(value)
        layout = value.layout if isinstance(value, Value) else None
        number = input_numbers.get(id(value))
        origin: Computed | InputItself
        result = output_numbers.get(id(value)) if number is None else None
        is_held = _is_held(number, result, results)
        if number is not None and (layout is None or number in safe or is_held):
            origin = InputItself(number)
        elif result is not None and (layout is None or result in results.kept_outputs or is_held):
            origin = Computed(result)
        else:
            origin = Computed(visible_count + len(extra))
            is_seen = number is not None or result is not None or root_of(forward.node(value)) in changeable
            extra.append(forward.copy(value) if is_seen else forward.node(value))
        place = (None, number) if number is not None else (step_numbers[id(value.step)], value.index)
        saved.append(Saved(origin, name, layout, *place, is_held))
    return saved, extra


def _is_held(number: int | None, result: int | None, results: Results) -> bool:
    if number is not None:
        return number in results.held_inputs - results.kept_inputs
    return result in results.held_outputs and result not in results.kept_outputs


def _watched(results: Results, saved: list[Saved]) -> tuple[Watched, ...]:
    """What eager keeps and this backward pass does not need; and what eager keeps before something is written that may share its
    version, for autograd looks at what a region saves when all is written."""
    mutated = {mutated.index for mutated in results.mutated}
    counts = {mutated.index: mutated.count for mutated in results.mutated}
    needed = {(type(s.origin), s.origin.index) for s in saved}
    inputs = []
    for i in sorted(results.kept_inputs - mutated):
        writes = results.writes_when_kept[i]
        is_early = any(counts.get(at, count) != count for at, count in writes)
        inputs.append(Watched(InputItself(i), "", 0, writes if is_early else None))
    outputs = [Watched(Computed(i), *place) for i, place in sorted(results.kept_outputs.items())]
    written = [Watched(InputItself(m.index), *m.place, is_written=True) for m in results.mutated if m.index in results.kept_inputs]
    return tuple(w for w in (*inputs, *outputs, *written) if w.writes or (type(w.origin), w.origin.index) not in needed)


def emit_joint(
    recorded: Recorded,
    tangents: list[Value],
    gradients: Gradients,
    at_level: Callable[[list[Step]], list[Step]] = lambda steps: steps,
) -> fx.GraphModule:
    """Forward and backward as one graph: inputs and tangents -> what the program returns, new contents of inputs, a gradient or None
    for each input."""
    joint = _GraphWriter(recorded.recorder.tape, "forward")
    for value in [*recorded.values, *tangents]:
        joint.placeholder(value)
    returned = joint_results(recorded)
    for step in at_level(returned.steps):
        joint.phase = step.phase
        joint.step(step)
    for value in returned.untyped:
        joint.forget_type(value)
    results = [joint.result(value) for value in returned.values]
    contents = [joint.node(mutated.value) for mutated in recorded.results.mutated]
    found = joint.gradients(gradients)
    joint.name_tangents(tangents, recorded.results)
    return joint.finish([*results, *contents, *found], "Joint")


def emit_backward(
    tape: Tape, parts: Parts, tangents: list[Value], gradients: Gradients, names: dict[int, str], results: Results | None = None
) -> PartialBackward:
    """One output for each input: its gradient, or None; of twins only the first is given."""
    backward = _GraphWriter(tape, "backward", names)
    for value in [*parts.saved, *tangents]:
        backward.placeholder(value)
    for step in parts.backward:
        backward.step(step)
    if results is not None:
        backward.name_tangents(tangents, results)
    nodes = backward.gradients(gradients)
    first: dict[fx.Node, int] = {}
    twins = []
    for index, node in enumerate(nodes):
        if node is not None and first.setdefault(node, index) != index:
            is_same = gradients.same_as.get(index, index) == gradients.same_as.get(first[node], first[node])
            twins.append(Twin(index, first[node], is_same))
            nodes[index] = None
    return PartialBackward(backward.finish(nodes, "Backward"), tuple(twins))


class _GraphWriter:
    """One fx graph in the making. `names` carries the forward graph's names into the backward graph."""

    def __init__(self, tape: Tape, phase: Phase, names: dict[int, str] | None = None) -> None:
        self.tape = tape
        self.phase = phase
        self.graph = fx.Graph()
        self.nodes: dict[int, fx.Node] = {}
        self.names = dict(names or {})
        self.numbers: dict[Any, Any] = {}
        """What stands for each number that varies."""
        self.constants: dict[str, torch.Tensor] = {}

    def placeholder(self, value: Any) -> None:
        name = self.names.get(id(value)) or (str(value) if isinstance(value, Size) else getattr(value, "name", ""))
        name = name or "unused"
        node = placeholder(self.graph, name)
        self._describe(node, value, NOWHERE)
        if isinstance(value, (Value, Number)):
            self._remember(value, node)
        elif isinstance(value, Size):
            self.numbers[value.expression] = node
            self._remember(value, node)

    def forget_type(self, value: Value) -> None:
        for key in ("val", "layout"):
            self.nodes[id(value)].meta.pop(key, None)

    def name_tangents(self, tangents: list[Value], results: Results) -> None:
        """For who reads the graph: what each is the gradient of, views of it included."""
        values = [*results.computed, *(mutated.value for mutated in results.mutated)]
        for tangent, output in zip(tangents, results.differentiable_outputs, strict=True):
            self.nodes[id(tangent)].meta["gradient_of"] = self.names.get(id(values[output]), f"result {output}")

    def step(self, step: Step) -> None:
        name, returns_many = _named(step.target)
        single = len(step.outputs) == 1 and not returns_many
        hint = (self.names.get(id(step.outputs[0])) if single else None) or name
        arguments = replace(step.arguments, self._operand)
        keywords = replace(step.keywords, self._operand) if step.keywords else {}
        node = add_node(self.graph, "call_function", step.target, arguments, keywords, name=hint)
        if step.reader:
            node.meta["reader"] = step.reader
        if single:
            self._describe(node, step.outputs[0], step.origin)
            self._remember(step.outputs[0], node)
            return
        self._describe(node, None, step.origin)
        node.meta["val"] = tuple(_example(output) for output in step.outputs)
        if any(isinstance(output, Value) and output.layout.varies for output in step.outputs):
            node.meta["layout"] = [output.layout if isinstance(output, Value) else None for output in step.outputs]
        for index, output in enumerate(step.outputs):
            if output is not None:
                item = add_node(self.graph, "call_function", operator.getitem, (node, index), name=f"{name}_{index}")
                self._describe(item, output, step.origin)
                self._remember(output, item)

    def node(self, value: Any) -> fx.Node:
        node = self.nodes.get(id(value))
        return self._constant(value) if node is None else node

    def result(self, value: Any) -> Any:
        """A result of the program's, be it no tensor, or one that belongs to the program and is computed nowhere."""
        if not isinstance(value, torch.Tensor):
            return self.node(value) if isinstance(value, (Value, Number)) else self._operand(value)
        name = f"constant_{len(self.constants)}"
        self.constants[name] = value
        node = self.graph.create_node("get_attr", name, name=name)
        node.meta |= {"val": value, "device": value.device}
        return node

    def name_of(self, value: Any) -> str:
        return self.node(value).name

    def copy(self, value: Any) -> fx.Node:
        """In memory of its own, laid out as the value is: what repeats along a dimension is there once."""
        node, once = self.node(value), value
        places = zip(value.sizes, value.strides, strict=True) if isinstance(value, Value) else ()
        repeating = [at for at, (size, stride) in enumerate(places) if stride == 0 and not is_constant(size, 0)]
        for dimension in repeating:
            sizes = (*once.sizes[:dimension], 1, *once.sizes[dimension + 1 :])
            once = Value(Layout(sizes, value.strides, value.dtype, value.device))
            node = self._made(aten.slice.Tensor, (node, dimension, 0, 1), once)
        node = self._made(aten.clone.default, (node,), once)
        if repeating:
            node = self._made(aten.expand.default, (node, [self._operand(size) for size in value.sizes]), value)
        return node

    def _made(self, operator: Any, arguments: tuple[Any, ...], value: Any) -> fx.Node:
        """A node that no line of the program stands for: it is where its first argument was made."""
        name = operator.name().removeprefix("aten::").split(".")[0]
        node = add_node(self.graph, "call_function", operator, arguments, name=name)
        self._describe(node, value, NOWHERE)
        node.meta |= {key: arguments[0].meta[key] for key in ("user_stack", "stack_trace") if key in arguments[0].meta}
        return node

    def distinct_outputs(self, values: list[Any]) -> list[fx.Node]:
        """The nodes of `values`, with a copy where eager returns memory of its own but the value lies in other memory."""
        given: set[fx.Node] = set()
        nodes = []
        for value in values:
            node = self.node(value)
            root = root_of(node)
            is_own = root not in given and root.op == "call_function" and _bytes(root) == _bytes(node)
            if not is_own and isinstance(value, Value):
                node = root = self.copy(value)
            given.add(root)
            nodes.append(node)
        return nodes

    def gradients(self, gradients: Gradients) -> list[fx.Node | None]:
        """The nodes of their values, with a copy where eager's lies in memory of its own and this one in another's, or in a part."""
        owners: dict[fx.Node, int | None] = {}
        nodes = []
        for index, (value, storage) in enumerate(zip(gradients.values, gradients.memory, strict=True)):
            node = None if value is None else self.node(value)
            if node is not None and storage is not None:
                root = root_of(node)
                is_part = index in gradients.filling and _bytes(root) != _bytes(node)
                if is_part or root.op != "call_function" or owners.setdefault(root, storage) != storage:
                    node = self.copy(value)
                    owners[node] = storage
            nodes.append(node)
        return nodes

    def finish(self, outputs: list[Any], name: str) -> fx.GraphModule:
        self.graph.output(tuple(outputs))
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target is operator.getitem and not node.users:
                self.graph.erase_node(node)
        return UnwrittenGraphModule(self.constants, self.graph, name)

    def _operand(self, leaf: Any) -> Any:
        kind = type(leaf)
        if kind is Value or kind is Number:
            return self.node(leaf)
        if kind is Size:
            return build(leaf.expression, self._root, self._number)
        return leaf

    def _root(self, root: Root) -> fx.Node:
        return self.numbers[of_root(root)]

    def _number(self, function: Any, arguments: tuple) -> Any:
        key = function, told_apart(arguments)
        if key not in self.numbers:
            node = add_node(self.graph, "call_function", function, arguments, name=function.__name__.strip("_"))
            operands = [a.meta["size"] if isinstance(a, fx.Node) else a for a in arguments]
            node.meta["size"] = apply(function, operands)
            node.meta["val"] = hint_of(node.meta["size"])
            node.meta["phase"] = self.phase
            self.numbers[key] = node
        return self.numbers[key]

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
        meta = node.meta
        if isinstance(value, Value):
            layout = value.layout
            meta["val"], meta["device"] = meta_tensor(layout), layout.device
            if layout.varies:
                meta["layout"] = layout
        else:
            meta["val"], meta["device"] = _example(value), None
            if isinstance(value, Size):
                meta["size"] = value
        meta["user_stack"] = origin.user_stack
        meta["stack_trace"] = origin.stack_trace
        meta["torch_node"] = origin.node
        if origin.piece:
            meta["piece"] = origin.piece
        meta["phase"] = self.phase


def _example(value: Any) -> Any:
    if isinstance(value, Value):
        return value.meta()
    return value.example if isinstance(value, Number) else hint_of(value)


def _bytes(node: fx.Node) -> int | None:
    """Of all elements: a view of complex numbers as their parts has twice as many."""
    value = node.meta.get("val")
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else None


@functools.cache
def _named(target: Any) -> tuple[str, bool]:
    """What a step of it is called, and whether it returns several values."""
    schema = getattr(target, "_schema", None)
    returns_many = schema is not None and (len(schema.returns) != 1 or str(schema.returns[0].type).startswith("List"))
    return getattr(target, "__name__", "step").split(".")[0].strip("_"), returns_many
