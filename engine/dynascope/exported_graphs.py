"""Functional graphs through an exporter of torch's, in parts: what it has nothing for runs as torch's operator between them.

    call = compile_in_parts(graph, example_inputs, translate, refused)

`translate(module, examples)` gives a callable of the module's inputs, and raises `Untranslated` with the operators that the exporter
does not know; these join `refused` and the graph is cut at them. What draws random numbers always runs as torch's operator, in the
graph's order: another generator would give others.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.meta_kernels.graph_modules import placeholder
from dynascope.runtime.operators import run_operators

Translate = Callable[[fx.GraphModule, list[torch.Tensor]], Callable[..., Sequence[torch.Tensor]]]


class Untranslated(RuntimeError):
    """The exporter has nothing for `operators`, named as the graph's targets are, with or without the namespace."""

    def __init__(self, operators: frozenset[str]) -> None:
        super().__init__(f"nothing for {', '.join(sorted(operators))}")
        self.operators = operators


@dataclass(frozen=True)
class Part:
    """Calls that run together; `inputs` are nodes of the whole graph, made before, and `outputs` what others or the results take."""

    module: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    is_translated: bool


def compile_in_parts(
    graph: fx.GraphModule, example_inputs: list[Any], translate: Translate, refused: set[str]
) -> Callable[..., tuple[Any, ...]]:
    """Raises what `translate` raises of operators that are refused already, or of others. `call.left` names what runs as torch's."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = list(output.args[0])
    if not any(node.op == "call_function" for node in graph.graph.nodes):
        return run_operators(graph)
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    examples = dict(zip(placeholders, example_inputs, strict=True))
    constants = _constants(graph)
    parts, calls = _translated(graph, results, {**examples, **constants}, translate, refused)

    def call(*inputs: Any) -> tuple[Any, ...]:
        given = dict(zip(placeholders, inputs, strict=True))
        values: dict[fx.Node, Any] = {**constants, **given}
        for part, run in zip(parts, calls, strict=True):
            found = run(*(values[node] for node in part.inputs))
            values.update((node, laid_out(node, value)) for node, value in zip(part.outputs, found, strict=True))
        return tuple(values[node] if isinstance(node, fx.Node) else node for node in results)

    names = (node.target for part in parts if not part.is_translated for node in part.module.graph.nodes if node.op == "call_function")
    call.left = tuple(dict.fromkeys(str(name) for name in names if name is not operator.getitem))  # type: ignore[attr-defined]
    return call


def _translated(
    graph: fx.GraphModule, results: list[Any], known: dict[fx.Node, Any], translate: Translate, refused: set[str]
) -> tuple[list[Part], list[Callable]]:
    while True:
        parts = parts_of(graph, results, frozenset(refused))
        try:
            return parts, [_run(part, known, translate) for part in parts]
        except Untranslated as error:
            targets = {str(node.target) for node in graph.graph.nodes}
            found = {name for name in targets if name in error.operators or name.partition(".")[2] in error.operators}
            if found <= refused:
                raise
            refused |= found


def _run(part: Part, known: dict[fx.Node, Any], translate: Translate) -> Callable:
    if not part.is_translated:
        return run_operators(part.module)
    examples = [example_of(known[node] if node in known else node.meta["val"]) for node in part.inputs]
    with generators_kept():
        return translate(part.module, examples)


def parts_of(graph: fx.GraphModule, results: list[Any], refused: frozenset[str]) -> list[Part]:
    """In the order in which they run: as few as the refused operators allow."""
    levels, left = _levels(graph, refused)
    wanted = {node for node in results if isinstance(node, fx.Node)}
    parts = []
    for level in sorted(set(levels.values())):
        for is_translated in (True, False):
            nodes = [node for node, at in levels.items() if at == level and (node not in left) == is_translated]
            if nodes:
                parts.append(_part(graph, nodes, wanted, is_translated))
    return parts


def _levels(graph: fx.GraphModule, refused: frozenset[str]) -> tuple[dict[fx.Node, int], set[fx.Node]]:
    """How many refused calls lead to each call, and these calls. Of one level the translated ones run first."""
    levels: dict[fx.Node, int] = {}
    left: set[fx.Node] = set()
    drawn = 0
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        is_item = node.target is operator.getitem and node.args[0] in left
        if draws or is_item or str(node.target) in refused or not node.all_input_nodes:
            left.add(node)
        before = [levels[each] + (each in left and node not in left) for each in node.all_input_nodes if each in levels]
        levels[node] = max([*before, drawn if draws else 0])
        drawn = max(drawn, levels[node]) if draws else drawn
    return levels, left


def _part(graph: fx.GraphModule, nodes: list[fx.Node], wanted: set[fx.Node], is_translated: bool) -> Part:
    """Each value once, and no None: ONNX has names for results and no place for what is none. Exporters have their own ideas of
    how results lie in memory: what is a view here may have to be a copy there."""
    inside = set(nodes)
    inputs = tuple(dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in inside))
    outputs = tuple(node for node in nodes if node in wanted or any(user not in inside and user.op != "output" for user in node.users))
    made = fx.Graph()
    copied = {node: placeholder(made, node.name) for node in inputs}
    for node in inputs:
        copied[node].meta = dict(node.meta)
    for node in nodes:
        copied[node] = made.node_copy(node, copied.__getitem__)
        if is_translated and node.target is torch.ops.aten.view.default:
            copied[node].target = torch.ops.aten.reshape.default
    made.output(tuple(copied[node] for node in outputs))
    return Part(fx.GraphModule(graph, made).eval(), inputs, outputs, is_translated)


def _constants(graph: fx.GraphModule) -> dict[fx.Node, torch.Tensor]:
    found = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(graph)
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"{node.target} is a {type(value).__name__}, which no exporter takes as an input")
            found[node] = value
    return found


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Exporters that do not get on try other ways, which draw random numbers: the program's own stay what they are."""
    with torch.random.fork_rng(list(range(torch.cuda.device_count()))):
        yield


def example_of(value: torch.Tensor) -> torch.Tensor:
    if value.device.type != "meta":
        return value.detach()
    return torch.zeros(value.shape, dtype=value.dtype)


def laid_out(node: fx.Node, value: Any) -> Any:
    """On the device and with the strides that the graph says."""
    example = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(example, torch.Tensor):
        return value
    value = value.to(node.meta.get("device") or torch.device("cpu"))
    if value.stride() == example.stride():
        return value
    return torch.empty_strided(example.shape, example.stride(), dtype=value.dtype, device=value.device).copy_(value)


def first_cause(error: BaseException) -> str:
    """The first line of what an exporter's error began with: around it stand pages about what its authors would like to be sent."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).splitlines() or [type(error).__name__])[0]
