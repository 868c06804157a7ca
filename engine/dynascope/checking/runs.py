"""A captured graph run in three ways on copies of the same inputs: as eager runs it, in float64, and compiled.

values = in_eager(module, inputs, seed)       {"mul": tensor, ...} and the outputs, each as it was when it was made
values = in_double(module, inputs, seed, of_eager)
module = with_all_values(module)              the graph with a copy of every tensor it makes among its outputs
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from dynascope.capture.random_nodes import draws_numbers
from dynascope.dataclass import dataclass

LOW = frozenset({torch.float32, torch.float16, torch.bfloat16})
TO_LOW = frozenset({"float", "half", "bfloat16", "type_as"})
"""Methods that would leave float64."""
Taken = tuple[list[Any], list[torch.Tensor | None]]


@dataclass
class Values:
    """`made`: what each node gave, copied at once. `drawn`: the nodes that moved a generator. `gradients`: of the inputs, by position."""

    made: dict[str, torch.Tensor] = field(default_factory=dict)
    drawn: set[str] = field(default_factory=set)
    states: dict[str, torch.Tensor] = field(default_factory=dict)
    """Of the CPU's random numbers, before each node that draws some."""
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    trouble: str = ""


def copies(inputs: Sequence[Any]) -> list[Any]:
    """With the memory that they share shared among the copies too."""
    detached = [value.detach() if isinstance(value, torch.Tensor) else value for value in inputs]
    made = [
        copy.deepcopy(value, known) if isinstance(value, torch.Tensor) else value
        for known in [{}]
        for value in detached
    ]
    for value, given in zip(made, inputs, strict=True):
        if isinstance(given, torch.Tensor) and given.requires_grad:
            value.requires_grad_()
    return made


def taken(inputs: Sequence[Any], change: Callable[[Any], Any] = lambda value: value) -> Taken:
    """Copies to call with, and beside each the leaf that its gradient leads to, None where there is none. What was computed before the
    call is so here: a leaf that leads a gradient may not be written in place, and it may."""
    given = [change(value) for value in copies(inputs)]
    leaves: list[torch.Tensor | None] = [None] * len(given)
    for at, (value, original) in enumerate(zip(given, inputs, strict=True)):
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            continue
        leaves[at] = value
        if original.grad_fn is not None:
            leaves[at] = value.detach().clone().requires_grad_()
            with torch.enable_grad():
                given[at] = _Computed.apply(leaves[at], value.detach())
    return given, leaves


class _Computed(torch.autograd.Function):
    """The second, in its memory, as if it had been computed from the first."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradients[0], None


@contextmanager
def same_numbers() -> Iterator[None]:
    """Random numbers begin as they do for the program, which does not notice that some were drawn."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(list(devices)):
        yield


def _generators() -> list[torch.Tensor]:
    """The states of the default generators in use."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]


class _Noting(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, values: Values) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values = values

    def run_node(self, n: fx.Node) -> Any:
        may_draw = draws_numbers(n)
        before = _generators() if may_draw else []
        if may_draw:
            self.values.states[n.name] = torch.get_rng_state()
        result = super().run_node(n)
        # By its name `normalize` might draw normal numbers, and attention drops nothing where it is not asked to.
        if may_draw and not all(map(torch.equal, before, _generators())):
            self.values.drawn.add(n.name)
        if n.op not in ("placeholder", "output", "get_attr") and isinstance(result, torch.Tensor):
            self.values.made[n.name] = result.detach().clone()
        return result


class _Double(_Noting):
    """With the random numbers of the `eager` run, where there are none like them in float64."""

    def __init__(self, module: fx.GraphModule, values: Values, eager: Values) -> None:
        super().__init__(module, values)
        self.eager = eager

    def run_node(self, n: fx.Node) -> Any:
        if n.name not in self.eager.drawn or n.name not in self.eager.made or _writes(n):
            return super().run_node(n)
        drawn = _doubled(self.eager.made[n.name])
        torch.set_rng_state(self.eager.states[n.name])
        result = super().run_node(n)
        # Gradients lead through a dropout, whose mask is the same in every precision.
        if not isinstance(result, torch.Tensor) or not result.requires_grad or not _is_near(result, drawn):
            result = drawn
        self.values.made[n.name] = result.detach().clone()
        return result

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> tuple[tuple, dict]:
        args, kwargs = super().fetch_args_kwargs_from_env(n)
        return pytree.tree_map(_wider, (args, kwargs))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _doubled(super().get_attr(target, args, kwargs))

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        return (
            super().call_method("double", args[:1], {})
            if target in TO_LOW
            else super().call_method(target, args, kwargs)
        )


def in_eager(module: fx.GraphModule, inputs: Sequence[Any]) -> Values:
    values = Values()
    _run(_Noting(module, values).run, taken(inputs), values)
    return values


def in_double(module: fx.GraphModule, inputs: Sequence[Any], eager: Values) -> Values:
    values = Values()
    with doubled(module, eager, values) as (run, change):
        _run(run, taken(inputs, change), values)
    return values


@contextmanager
def doubled(module: fx.GraphModule, eager: Values, values: Values | None = None) -> Iterator[tuple[Callable, Callable]]:
    """While it lasts: what runs the module in float64 with the random numbers of the eager run, and what makes its inputs of the
    program's."""
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        yield _Double(module, values or Values(), eager).run, _leaf
    finally:
        torch.set_default_dtype(default)


def compiled(function: Callable[..., Sequence[Any]], inputs: Sequence[Any], names: Sequence[str]) -> Values:
    """`names`: of the last outputs, which are the values of every line; none where they could not be had."""
    values = Values()
    outputs = _run(function, taken(inputs), values, left_out=len(names))
    if names and not values.trouble:
        values.made = {
            name: value.detach() for name, value in zip(names, outputs[len(outputs) - len(names) :], strict=True)
        }
    return values


def with_all_values(module: fx.GraphModule) -> tuple[fx.GraphModule, tuple[str, ...]]:
    """Copies are made where the value is: a later line may write to it."""
    graph = fx.Graph()
    output = graph.graph_copy(module.graph, known := {})
    names, copied = [], []
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr") or not isinstance(
            node.meta.get("example_value"), torch.Tensor
        ):
            continue
        last = node
        while "size" in last.next.meta:  # a size that only the run knows belongs to the operator that gives it
            last = last.next
        with graph.inserting_after(known[last]):
            made = graph.call_method("clone", (known[node],))
        made.meta = {key: value for key, value in node.meta.items() if key not in ("late", "late_result", "kept", "writes")}
        names.append(node.name)
        copied.append(made)
    graph.output([*(output if isinstance(output, (list, tuple)) else [output]), *copied])
    for node, new in known.items():
        new.meta = dict(node.meta)
    return fx.GraphModule(module, graph), tuple(names)


def _run(call: Callable[..., Any], given: Taken, values: Values, left_out: int = 0) -> list[Any]:
    """The outputs; and the inputs' gradients, of a sum in which every output's element has a weight of its own."""
    inputs, leaves = given
    try:
        with same_numbers(), torch.enable_grad():
            outputs = list(call(*inputs))
            own = outputs[: len(outputs) - left_out]
            weighed = [_weighed(value) for value in own if _is_differentiable(value)]
            wanted = {at: leaf for at, leaf in enumerate(leaves) if leaf is not None}
            if weighed and wanted:
                total = torch.stack([value.double() for value in weighed]).sum()
                found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
                pairs = zip(wanted, found, strict=True)
                values.gradients = {at: gradient for at, gradient in pairs if gradient is not None}
        return outputs
    except Exception as error:
        values.trouble = f"{type(error).__name__}: {error}".splitlines()[0]
        return []


def _is_near(value: torch.Tensor, other: torch.Tensor) -> bool:
    return value.shape == other.shape and torch.allclose(value.detach(), other, rtol=1e-2, atol=1e-3, equal_nan=True)


def _weighed(value: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(-1, 1, value.numel(), dtype=torch.float64, device=value.device).to(value.dtype)
    return (value.reshape(-1) * (weights + 0.5)).sum()


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value.dtype.is_floating_point


def _leaf(value: Any) -> Any:
    doubled = _doubled(value)
    return doubled.detach().requires_grad_(value.requires_grad) if isinstance(doubled, torch.Tensor) else doubled


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.dtype in LOW else value


def _wider(value: Any) -> Any:
    return torch.float64 if value in LOW and isinstance(value, torch.dtype) else value


def _writes(node: fx.Node) -> bool:
    return (isinstance(node.target, str) and node.target.endswith("_")) or "out" in node.kwargs
