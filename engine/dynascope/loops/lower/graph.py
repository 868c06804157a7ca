"""Walks an ATen graph in order and collects loop nodes; views become nothing, unknown operators extern calls."""

from __future__ import annotations

import keyword
import operator
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from dynascope.loops.dtypes import is_lowered
from dynascope.loops.layouts import ResultLayout, result_layouts
from dynascope.loops.lower import (  # noqa: F401  (each registers its rules)
    activations,
    adaptive_windows,
    borders,
    convolutions,
    creation,
    indexing,
    normalization,
    pointwise,
    randomness,
    reductions,
    resampling,
    resampling_gradients,
    shaping,
    windows,
)
from dynascope.loops.lower.channels_last import AS_EAGER, Turned, reads_as_eager
from dynascope.loops.lower.exact import is_exact
from dynascope.loops.lower.numbers import passed_as_number
from dynascope.loops.lower.part_writes import PartWrites
from dynascope.loops.lower.parts import lie_in_layers, parts_written
from dynascope.loops.lower.repeats import Repeats
from dynascope.loops.lower.rules import (
    LIBRARY,
    ON_GPUS,
    RULES,
    Lowered,
    Lowering,
    NotLowered,
    Refused,
    copy_of,
    view_of,
    writes_in_place,
)
from dynascope.loops.lower.views import is_view, view_result, view_where_it_lies
from dynascope.loops.nodes import Buffer, ExternCall, LoopProgram, Node, Origin, ScalarInput, ScatterNode, TensorView
from dynascope.loops.numbers import HELPERS, RESERVED, number_name
from dynascope.sizes import Root, Size, is_constant, leaves, same, solved


def lower(
    graph: fx.GraphModule,
    example_inputs: Any = None,
    options: Any = None,
    repeats: Repeats | None = None,
    turned: Turned = AS_EAGER,
    mutations: Sequence[tuple[int, int]] = (),
) -> LoopProgram:
    """The graph's computation as loops over named buffers. Nothing is refused: what has no rule is an extern call.

    Of `repeats` those in the middle are left out: whoever reads them reads what stands for them. `turned` are results that lie otherwise
    than eager's. Of `mutations`, pairs of an input and the output that it becomes, the inputs are the program's to write to.
    """
    is_strict = options is not None and options.numerics == "strict"
    state = _LoweringState(writes_in_place(graph), _roots(graph), is_strict, turned)
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    state.parts = parts_written(graph, (given[place] for place, _ in mutations))
    if repeats is not None and not lie_in_layers(state.parts, repeats):
        repeats = None
    stand_ins = repeats.stand_ins if repeats is not None else {}
    outputs: tuple[Any, ...] = ()
    for node in graph.graph.nodes:
        if node in stand_ins:
            state.values[node] = state.values[stand_ins[node]]
            continue
        if node.op == "placeholder":
            state.add_input(node)
        elif node.op == "get_attr":
            state.add_attribute(graph, node)
        elif node.op == "call_function":
            state.add_call(node)
        elif node.op == "output":
            returned = enumerate(_flat_outputs(node.args[0]))
            outputs = tuple(state.resolve(value, as_eager=place not in turned.loose) for place, value in returned)
    return LoopProgram(
        _name_of(graph), tuple(state.inputs), tuple(state.nodes), outputs, state.buffers, state.constants, repeats, is_strict
    )


class _LoweringState:
    """What has been lowered so far: values of fx nodes, buffers by name, nodes in order."""

    def __init__(self, writes_in_place: bool, roots: frozenset[str], is_strict: bool, turned: Turned) -> None:
        self.writes_in_place = writes_in_place
        self.is_strict = is_strict
        self.turned = turned.layouts
        self.values: dict[fx.Node, Any] = {}
        self.as_eager: dict[fx.Node, Any] = {}
        """Of turned results copies that lie as eager's, made where they are first needed."""
        self.buffers: dict[str, Buffer] = {}
        self.inputs: list[Any] = []
        self.nodes: list[Node] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.devices: dict[str, torch.device] = {}
        self.names: set[str] = {*HELPERS, *(roots | RESERVED if roots else ())}
        self.numbers: dict[str, ScalarInput] = {}
        """CPU tensors without dimensions that some kernel elsewhere is passed as numbers."""
        self.parts: frozenset[fx.Node] = frozenset()
        """The scatters that write a part alone."""
        self.part_writes = PartWrites()
        self.moved: set[fx.Node] = set()
        """What lies otherwise than eager's does, as a view of what a part of it was written in."""

    def new_name(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted)
        if not base or base[0].isdigit() or keyword.iskeyword(base):
            base = f"v_{base}"
        name, number = base, 1
        while name in self.names:
            name, number = f"{base}_{number}", number + 1
        self.names.add(name)
        return name

    def resolve(self, value: Any, as_eager: bool = False) -> Any:
        """fx arguments with nodes replaced by what they became, or by what lies as eager's does."""
        if isinstance(value, fx.Node):
            return self._as_eager(value) if as_eager and (value in self.turned or value in self.moved) else self.values[value]
        if isinstance(value, (list, tuple)):
            return type(value)(self.resolve(v, as_eager) for v in value)
        if isinstance(value, dict):
            return {k: self.resolve(v, as_eager) for k, v in value.items()}
        return value

    def _as_eager(self, node: fx.Node) -> Any:
        """A turned result once more. Of a view it is the view of its base's copy."""
        if node not in self.as_eager:
            if node.target is operator.getitem:
                self.as_eager[node] = self._as_eager(node.args[0])[node.args[1]]
            elif is_view(node.target):
                self.as_eager[node] = view_result(self._lowering(node, as_eager=True))
            else:
                self.as_eager[node] = self._copied(node, result_layouts(node), "_as_eager")
        return self.as_eager[node]

    def _copied(self, node: fx.Node, layouts: tuple[Any, ...], suffix: str) -> Any:
        """What a call gave, in memory that lies otherwise."""
        call, values = self._lowering(node), self.values[node]
        copies = []
        for value, layout in zip(values if isinstance(values, tuple) else (values,), layouts, strict=True):
            if isinstance(value, TensorView) and not same(value.strides, layout.strides):
                copied, value = copy_of(call, value, layout.strides, suffix)
                self._record(copied)
            copies.append(value)
        return tuple(copies) if isinstance(values, tuple) else copies[0]

    def add_input(self, node: fx.Node) -> None:
        if node.meta.get("size") is not None:
            self._add_root(node, node.meta["size"])
            return
        (meta,) = self.turned.get(node) or (result_layouts(node) if not isinstance(node.meta.get("val"), (list, tuple)) else (None,))
        name = self.new_name(node.name)
        if isinstance(meta, ResultLayout):
            is_aligned = not node.meta.get("misaligned", False)
            buffer = Buffer(name, meta.dtype, _device(node), meta.shape, meta.strides, "input", is_aligned)
            self.buffers[name] = buffer
            self.inputs.append(buffer)
            self.values[node] = view_of(buffer)
        elif isinstance(meta, (int, float)) or _is_symbolic(meta):
            kind = "float" if isinstance(meta, float) or "Float" in type(meta).__name__ else "int"
            scalar = ScalarInput(name, kind)
            self.inputs.append(scalar)
            self.values[node] = scalar
        else:
            self.inputs.append(None)
            self.values[node] = None

    def _add_root(self, node: fx.Node, size: Any) -> None:
        """A number that varies, under the name that expressions over it use. One that is constant after all is not used."""
        self.values[node] = solved(size)
        root = _root_of(size)
        if root is None:
            self.inputs.append(None)
            return
        name = number_name(root)
        if any(isinstance(given, ScalarInput) and given.name == name for given in self.inputs):
            self.inputs.append(None)
            return
        self.inputs.append(ScalarInput(name, root.kind.__name__))

    def add_attribute(self, graph: fx.GraphModule, node: fx.Node) -> None:
        tensor = graph
        for part in node.target.split("."):
            tensor = getattr(tensor, part)
        name = self.new_name(node.name)
        buffer = Buffer(name, tensor.dtype, tensor.device, tuple(tensor.shape), tuple(tensor.stride()), "constant")
        self.buffers[name] = buffer
        self.constants[name] = tensor
        self.values[node] = view_of(buffer)

    def add_call(self, node: fx.Node) -> None:
        if node.meta.get("size") is not None and not self._makes_root(node):
            self.values[node] = solved(node.meta["size"])
            return
        if node.target.__name__ == "getitem":
            self.values[node] = self.resolve(node.args[0])[node.args[1]]
            return
        if self._moves_with_its_base(node):
            return
        is_otherwise = bool(self.turned or self.moved)
        call = self._lowering(node, as_eager=is_otherwise and node not in self.turned and reads_as_eager(node))
        view = view_result(call)
        if view is not None:
            self.values[node] = view
            return
        lowered = self._written_part(node) if node in self.parts else None
        if lowered is None:
            call = self._seen_before(call)
            lowered = self._lowered(call)
        if isinstance(lowered, NotLowered):
            call = self._lowering(node, as_eager=is_otherwise)
            lowered = _extern(call, lowered.why)
        else:
            self.numbers.update(call.numbers)
            lowered = Lowered((*call.before, *lowered.nodes), lowered.value)
        for new in lowered.nodes:
            self._record(new)
        self.values[node] = lowered.value
        if node in self.turned and call.turned is None:
            self.as_eager[node] = lowered.value
            self.values[node] = self._copied(node, self.turned[node], "_turned")

    def _written_part(self, node: fx.Node) -> Lowered | None:
        """A scatter as a write of its part, on what its operands are here."""
        if self.writes_in_place or node in self.turned:
            return None
        lowered = self.part_writes.write(self._lowering(node), self.buffers)
        if lowered is not None:
            self._note_if_moved(node, lowered.value)
        return lowered

    def _note_if_moved(self, node: fx.Node, view: TensorView) -> None:
        (layout,) = result_layouts(node)
        if not same(view.strides, layout.strides):
            self.moved.add(node)

    def _moves_with_its_base(self, node: fx.Node) -> bool:
        """Whether the call is a view of what lies otherwise than eager's, and can be seen where that lies."""
        base = node.args[0] if node.args else None
        if base not in self.moved or not is_view(node.target):
            return False
        view = view_where_it_lies(self._lowering(node))
        if view is None:
            return False
        self.values[node] = view
        self._note_if_moved(node, view)
        return True

    def _seen_before(self, call: Lowering) -> Lowering:
        """The call on tensors that wait for no write which leaves them as they are."""
        if not self.part_writes.writes:
            return call
        return replace(call, arguments=self.part_writes.seen_before(call.arguments, self.buffers))

    def _makes_root(self, node: fx.Node) -> bool:
        """Whether a call itself brings a number that is known only when it runs (`item`), as a root that no input is."""
        root = _root_of(node.meta["size"])
        return root is not None and number_name(root) not in self._given()

    def _given(self) -> set[str]:
        made = [r for n in self.nodes if isinstance(n, ExternCall) for r in n.results]
        return {number.name for number in (*self.inputs, *made) if isinstance(number, ScalarInput)}

    def _lowered(self, call: Lowering) -> Lowered | NotLowered:
        if self.writes_in_place:
            return NotLowered("the graph writes into tensors in place")
        if self._reads_elsewhere(call):
            return NotLowered("an operand lives on another device")
        if self.is_strict and not is_exact(call):
            return NotLowered("its results are to be eager's to the last bit")
        return _apply_rule(call)

    def _lowering(self, node: fx.Node, as_eager: bool = False) -> Lowering:
        origin = Origin(node.name, _operator_name(node.target), tuple(node.meta.get("user_stack") or ()), node.meta.get("piece", 0))
        arguments, keywords = self.resolve(tuple(node.args), as_eager), self.resolve(dict(node.kwargs), as_eager)
        device = node.meta.get("device") or self._device_of((arguments, keywords))
        turned = None if as_eager else self.turned.get(node)
        return Lowering(node, node.target, arguments, keywords, origin, torch.device(device), self.new_name, turned=turned)

    def _reads_elsewhere(self, call: Lowering) -> bool:
        """Whether a kernel would have to read another device's memory. A CPU tensor without dimensions is passed as a number."""
        for view in _tensors((call.arguments, call.keywords)):
            device = self.buffers[view.buffer].device
            if _is_same(device, call.device) or view.buffer in call.numbers:
                continue
            if view.sizes or device.type != "cpu" or not is_lowered(view.dtype):
                return True
            call.numbers[view.buffer] = self.numbers.get(view.buffer) or passed_as_number(call, view)
        return False

    def _device_of(self, operands: Any) -> torch.device:
        """The device of the first tensor among the operands, one with dimensions before one without."""
        tensors = list(_tensors(operands))
        tensors.sort(key=lambda view: not view.sizes)
        return self.buffers[tensors[0].buffer].device if tensors else torch.device("cpu")

    def _record(self, node: Node) -> None:
        self.nodes.append(node)
        for buffer in result_buffers(node):
            self.buffers[buffer.name] = buffer


def result_buffers(node: Node) -> tuple[Buffer, ...]:
    """The buffers that a node makes."""
    if isinstance(node, ExternCall):
        return tuple(b for b in node.results if isinstance(b, Buffer))
    if isinstance(node, ScatterNode):
        return (node.result,)
    return tuple(r.buffer for r in node.results)


def _apply_rule(call: Lowering) -> Lowered | NotLowered:
    rule = RULES.get(call.operator)
    if rule is None:
        return NotLowered(LIBRARY)
    if call.operator in ON_GPUS and call.device.type != "cuda":
        return NotLowered("no loop form but on GPUs: the library's own kernel runs it")
    if not all(_is_plain(view) for view in _tensors((call.arguments, call.keywords))):
        return NotLowered("a dtype that loops do not compute with")
    layouts = [layout for layout in call.results if isinstance(layout, ResultLayout)]
    if not all(is_lowered(layout.dtype) for layout in layouts):
        return NotLowered("a dtype that loops do not compute with")
    if any(is_constant(size, 0) for layout in layouts for size in layout.shape):
        return NotLowered("a result without elements")
    try:
        return rule(call)
    except Refused as refused:
        return NotLowered(str(refused))


def _is_plain(view: TensorView) -> bool:
    return is_lowered(view.dtype)


def _extern(call: Lowering, why: str) -> Lowered:
    """The operator as it is, one buffer for each tensor that it returns."""
    results: list[Buffer | ScalarInput | None] = []
    root = _root_of(call.node.meta.get("size"))
    for position, meta in enumerate(call.results):
        if isinstance(meta, ResultLayout):
            name = call.new_name(call.node.name + (f"_{position}" if len(call.results) > 1 else ""))
            results.append(Buffer(name, meta.dtype, call.device, meta.shape, meta.strides))
        elif root is not None:
            results.append(ScalarInput(number_name(root), root.kind.__name__))
        elif isinstance(meta, (int, float)) or _is_symbolic(meta):
            kind = "float" if isinstance(meta, float) else "int"
            results.append(ScalarInput(call.new_name(call.node.name), kind))
        else:
            results.append(None)
    values = [view_of(r) if isinstance(r, Buffer) else r for r in results]
    if root is not None:
        values = [call.node.meta["size"]]
    node = ExternCall(
        call.new_name(f"call_{call.node.name}"), call.operator, call.arguments, _with_device(call),
        tuple(results), call.origin, why,
    )  # fmt: skip
    is_list = isinstance(call.node.meta.get("val"), (list, tuple))
    return Lowered((node,), tuple(values) if is_list else values[0])


def _with_device(call: Lowering) -> dict[str, Any]:
    """The keywords, with the device that the user's call ran on where the graph was recorded on meta tensors."""
    wants = (
        any(argument.name == "device" for argument in getattr(call.operator, "_schema", None).arguments)
        if hasattr(call.operator, "_schema")
        else False
    )
    given = call.keywords.get("device")
    is_meta = given is not None and torch.device(given).type == "meta"
    makes = wants and given is None and not _tensors((call.arguments, call.keywords))
    return {**call.keywords, "device": call.device} if is_meta or makes else call.keywords


def _tensors(value: Any) -> list[TensorView]:
    """Every tensor operand, in order."""
    if isinstance(value, TensorView):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    return []


def _is_same(a: torch.device, b: torch.device) -> bool:
    return a.type == b.type and (a.index == b.index or None in (a.index, b.index))


def _device(node: fx.Node) -> torch.device:
    device = node.meta.get("device")
    return torch.device("cpu") if device is None else torch.device(device)


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat))


def _root_of(value: Any) -> Root | None:
    """The root that a number is, where it is nothing but one."""
    if not isinstance(value, Size):
        return None
    (leaf, *others) = leaves(value.expression)
    is_root = isinstance(leaf, Root) and not others and str(value) == str(leaf)
    return leaf if is_root else None


def _roots(graph: fx.GraphModule) -> frozenset[str]:
    """The names of all roots, which nothing else may take."""
    roots = (_root_of(node.meta.get("size")) for node in graph.graph.nodes)
    return frozenset(number_name(root) for root in roots if root is not None)


def _flat_outputs(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _operator_name(target: Any) -> str:
    """Of a function of ours the operator that it calls: `aten.bernoulli_.float`, where nothing is written that anybody sees."""
    return str(getattr(target, "written_by", target))


def _name_of(graph: fx.GraphModule) -> str:
    return re.sub(r"\W", "_", getattr(graph, "dynascope_name", "") or "graph")
