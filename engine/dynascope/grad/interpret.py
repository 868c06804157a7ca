"""Running a Torch IR graph on meta tensors, with the choices that torch makes by device made for the real device.

`RULES` holds the functions whose C++ looks at the device before any operator is dispatched: attention picks its kernel,
dropout its fused form, and `.to(device)` would see only "meta".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

from dynascope.autograd_functions import CustomFunction, Scanned, Transformed
from dynascope.grad.inputs import InputFacts
from dynascope.grad.numbers import number_of, symbol
from dynascope.grad.reasons import (
    AutocastActive,
    DataDependentResult,
    DifferentiationRefused,
    OperatorFailed,
    UnsupportedMutation,
    VaryingNumberNeeded,
)
from dynascope.grad.record import Recorder, comes_down_itself
from dynascope.grad.tape import Origin, names_of
from dynascope.grad.torch_rules import RULES
from dynascope.grad.written_forms import WrittenForm
from dynascope.meta_kernels import autocast
from dynascope.meta_kernels.quiet_torch import without_saved_tensors_hooks
from dynascope.report.reason import Reason
from dynascope.sizes import Size


def run(
    graph: fx.GraphModule, inputs: list[Any], recorder: Recorder, forms: Mapping[fx.Node, WrittenForm] = MappingProxyType({})
) -> Any:
    """The outputs, as handles. Raises `DifferentiationRefused` with the node's name."""
    environment: dict[fx.Node, Any] = {}
    left_out = {node for form in forms.values() for node in form.between}
    remaining = iter(inputs)
    load = environment.__getitem__
    varies = any("size" in node.meta or "sizes" in node.meta for node in graph.graph.nodes if node.op == "placeholder")
    for node in graph.graph.nodes:
        if node in left_out:
            continue
        recorder.enter_node(origin_of(node))
        if node.op == "placeholder":
            environment[node] = next(remaining)
        elif node.op == "output":
            _describe_results(node, load, recorder)
            return fx.node.map_arg(node.args[0], load)
        elif node.op == "get_attr":
            environment[node] = _attribute(graph, node.target)
        else:
            number = _number(node, load)
            result = environment[node] = _run_node(node, load, recorder, forms.get(node)) if number is None else number
            if varies and isinstance(result, torch.Tensor):
                _describe_sizes(node, result, recorder)
    return ()


def _number(node: fx.Node, load: Callable[[fx.Node], Any]) -> Any:
    """A number that a symbol goes into is the one that capture has computed: Python's functions ask for its value (`max(n, 2)`), and an
    int beside it (`math.cos(n) * scale`) may be known here, for one of its values alone. None for others."""
    if "size" not in node.meta or "late" in node.meta:
        return None
    given = map(load, node.all_input_nodes)
    return symbol(node.meta["size"]) if any(number_of(each) is not each for each in given) else None


def _describe_sizes(node: fx.Node, result: torch.Tensor, recorder: Recorder) -> None:
    """For those who read the graph: what its sizes are for all calls, where they vary, or that they are unknown."""
    try:
        sizes = recorder.value(result).layout.sizes
    except DifferentiationRefused:
        node.meta["unknown"] = True
        return
    if any(isinstance(size, Size) for size in sizes):
        node.meta["sizes"] = sizes


def _describe_results(node: fx.Node, load: Callable[[fx.Node], Any], recorder: Recorder) -> None:
    """How results lie in memory for all calls, where that has a form, and where it is not as capture took it to be: the next part of
    a program that is cut in parts is given them so."""
    for result in node.all_input_nodes:
        value = load(result)
        if result.op == "placeholder" or not isinstance(value, torch.Tensor):
            continue
        try:
            sizes, strides = recorder.layout(value)
        except DifferentiationRefused:
            continue
        if any(isinstance(extent, Size) for extent in (*sizes, *strides)):
            result.meta["sizes"], result.meta["strides"] = sizes, strides
        elif recorder.is_at_hand and (example := result.meta.get("example_value")) is not None and value.stride() != example.stride():
            result.meta["strides"] = strides


def origin_of(node: fx.Node) -> Origin:
    meta = node.meta
    return Origin(node.name, meta.get("user_stack") or (), meta.get("stack_trace"), "made_again" in meta)


def _attribute(graph: fx.GraphModule, path: str) -> Any:
    value: Any = graph
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _run_node(node: fx.Node, load: Callable[[fx.Node], Any], recorder: Recorder, form: WrittenForm | None) -> Any:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    try:
        if form is not None:
            with autocast.simulated(recorder.device_type_of, recorder.lower_precision_copies):
                return form.run(load, recorder)
        arguments, keywords = fx.node.map_arg(node.args, load), fx.node.map_arg(node.kwargs, load)
        _refuse_by_name(node, name)
        out = keywords.get("out")
        written = [] if out is None else _writes(out, recorder)
        with autocast.simulated(recorder.device_type_of, recorder.lower_precision_copies):
            result = _call(node, arguments, keywords, recorder)
        if _is_of_another_type(result, node.meta.get("example_value")):
            raise DifferentiationRefused(AutocastActive(name))
        if node.target is torch.clear_autocast_cache:
            recorder.lower_precision_copies.clear()
        if out is not None and any(now == before for now, before in zip(_writes(out, recorder), written, strict=True)):
            raise DifferentiationRefused(UnsupportedMutation(name, "what it writes to `out` was not seen"))
        return result
    except DifferentiationRefused as refused:
        raise DifferentiationRefused(_named(refused.reason, name), node.name) from refused
    except Exception as error:
        cause = refusal_within(error)
        reason = cause.reason if cause else _failed(node, name, load, error)
        raise DifferentiationRefused(_named(reason, name), node.name) from error


def _failed(node: fx.Node, name: str, load: Callable[[fx.Node], Any], error: Exception) -> Reason:
    """Some of torch's functions take no symbol for a number (`interpolate(x, scale_factor=[s])`), and say that it has the wrong type."""
    needed = names_of(found for found in map(number_of, map(load, node.all_input_nodes)) if isinstance(found, Size))
    if needed and not isinstance(node.target, (OpOverload, OpOverloadPacket)):
        return VaryingNumberNeeded(name, needed)
    return OperatorFailed(name, f"{type(error).__name__}: {error}")


def _writes(out: Any, recorder: Recorder) -> list[int]:
    """How often each tensor of an `out=` was written. Composite operators may write to a copy of a meta tensor."""
    tensors = out if isinstance(out, (tuple, list)) else [out]
    cells = [recorder.memory.cell(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor)]
    return [cell.writes for cell in cells if cell is not None]


def _call(node: fx.Node, arguments: tuple, keywords: dict[str, Any], recorder: Recorder) -> Any:
    special = RULES.get(node.target)
    if special is not None and not any(map(comes_down_itself, arguments)):
        result = special(recorder, *arguments, **keywords)
        if result is not NotImplemented:
            return result
    if node.op == "call_method":
        return getattr(arguments[0], node.target)(*arguments[1:], **keywords)
    if isinstance(node.target, CustomFunction):
        return node.target.applied(lambda graph, inputs: _run_pass(node.target, graph, inputs, recorder), arguments)
    if isinstance(node.target, Scanned):
        return node.target.applied(lambda graph, inputs: _run_inside(graph, inputs, recorder), arguments)
    if isinstance(node.target, Transformed):
        with without_saved_tensors_hooks():  # transforms take none
            return node.target(*arguments)
    return node.target(*arguments, **keywords)


def _run_pass(custom: CustomFunction, graph: fx.GraphModule, inputs: Sequence[Any], recorder: Recorder) -> Any:
    made = _run_inside(graph, inputs, recorder)
    if graph is custom.forward:
        recorder.held += [each for each in made[custom.count + custom.saved :] if isinstance(each, torch.Tensor)]
    return made


def _run_inside(graph: fx.GraphModule, inputs: Sequence[Any], recorder: Recorder) -> Any:
    """A pass of a custom function, or a step of a scan."""
    before, recorder.says_its_places = recorder.says_its_places, True
    try:
        return run(graph, list(inputs), recorder)
    finally:
        recorder.says_its_places = before


def _named(reason: Any, name: str) -> Any:
    if isinstance(reason, VaryingNumberNeeded):
        return VaryingNumberNeeded(name, reason.inputs)
    return reason


def _is_of_another_type(result: Any, example: Any) -> bool:
    """Under autocast: what was recorded computes in another type than capture was told, so that one of the two saw a conversion that
    the other did not."""
    if not autocast.active_devices() or not isinstance(result, torch.Tensor) or not isinstance(example, torch.Tensor):
        return False
    return result.dtype is not example.dtype


def refusal_within(error: BaseException | None) -> DifferentiationRefused | None:
    while error is not None:
        if isinstance(error, DifferentiationRefused):
            return error
        error = error.__cause__ or error.__context__
    return None


def _refuse_by_name(node: fx.Node, name: str) -> None:
    if node.op == "call_method" and name in ("item", "tolist", "numpy"):
        raise DifferentiationRefused(DataDependentResult(name))
    if node.target in _AUTOCAST:
        raise DifferentiationRefused(AutocastActive(name))


_AUTOCAST = {torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast}


def make_inputs(names: Any, inputs: Any, recorder: Recorder) -> tuple[list[Any], list[Any], list[Any]]:
    """(recorded values, leaves to differentiate by, handles that the program gets), one for each placeholder."""
    values, leaves, handles = [], [], []
    for index, (name, facts) in enumerate(zip(names, inputs, strict=True)):
        if not isinstance(facts, InputFacts):
            value = leaf = facts
            handle = symbol(facts) if isinstance(facts, Size) else facts
            if isinstance(facts, Size) and facts.kind is int and recorder.trail is not None:
                handle = facts.hint
        else:
            value, leaf = recorder.placeholder(facts.layout, facts.offset, name)
            if facts.of_another:
                leaf = recorder.as_view(leaf)
            handle = leaf
            if facts.requires_grad:
                leaf.requires_grad_()
                with torch.enable_grad():
                    handle = leaf if facts.is_leaf else _Entry.apply(leaf, recorder)
            cell = recorder.memory.cell(handle)
            assert cell is not None
            cell.input_index = index
        values.append(value)
        leaves.append(leaf)
        handles.append(handle)
    return values, leaves, handles


class _Entry(torch.autograd.Function):
    """The same value with a history, so that it may be changed in place as any tensor that is not a leaf."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, recorder: Recorder) -> torch.Tensor:
        ctx.set_materialize_grads(False)  # what no gradient reaches has none, as a leaf
        ctx.saves = False  # as a custom function says to `passes`: autograd alone does not tell nothing from what was freed
        return recorder.wrap(recorder.value(leaf))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[torch.Tensor | None, None]:
        return gradient, None
