"""Backends by name: ours, the ones a person registers, and the ones registered with torch.

A backend is a callable `(graph: torch.fx.GraphModule, example_inputs: list) -> callable`. The callable takes the graph's
inputs and returns a tuple or list of its outputs. torch's own backends are imported only when one is asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

Backend = Callable[[Any, list], Callable]

DEFAULT = "dynascope"
_registered: dict[str, Backend] = {}


@dataclass(frozen=True, eq=False)
class GraphCompilers:
    """A backend for functional graphs: `forward` and `backward` get one each, of ATen, core ATen or prims, and ours is all around
    them (`dynascope.aot`). None: the graph runs operator by operator."""

    forward: Backend | None = None
    backward: Backend | None = None
    level: Literal["aten", "core", "prims"] = "aten"
    decompositions: Mapping[Any, Callable] = field(default_factory=dict)
    __name__ = "aot"

    def __call__(self, graph: Any, example_inputs: list) -> Callable:
        raise TypeError("dynascope.aot(function, ...) compiles; what it makes is no backend for others")


class UnknownBackend(ValueError):
    """No backend of that name; the message lists the ones there are."""


def register_backend(backend: Backend | None = None, *, name: str | None = None) -> Backend | Callable:
    """Make a backend known by name (its function's name, unless `name` says otherwise). Also a decorator."""
    if backend is None:
        return lambda function: register_backend(function, name=name)
    if not callable(backend):
        raise TypeError(f"a backend is a callable (graph, example_inputs) -> callable, not {backend!r}")
    _registered[name or backend.__name__] = backend
    return backend


def list_backends() -> list[str]:
    """The names `compile(backend=...)` accepts. Asks torch for its own, which imports `torch._dynamo`."""
    return sorted({DEFAULT, "eager", *_registered, *_torch_backends(hidden=("debug", "experimental"))})


def find_backend(backend: str | Backend) -> Backend | None:
    """The callable for a name; None for our own, which is not a graph-at-a-time callable but the pipeline itself."""
    if callable(backend):
        return backend
    if backend == DEFAULT:
        return None
    if backend == "eager":
        return run_uncompiled
    if backend in _registered:
        return _registered[backend]
    if backend in _torch_backends(hidden=()):
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend(backend)
    known = list_backends()
    near = difflib.get_close_matches(backend, known, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownBackend(f"no backend is named {backend!r}.{hint} There are: {', '.join(known)}")


def numbers_among(example_inputs: tuple) -> tuple[int, ...]:
    """The positions of the Python numbers, which vary from call to call."""
    return tuple(at for at, example in enumerate(example_inputs) if not isinstance(example, torch.Tensor))


def compile_with_symbols(backend: Backend, graph: Any, example_inputs: tuple) -> Callable:
    """A graph some of whose inputs are numbers that vary, through a backend that might take its examples for constants.

    The backend gets what torch.compile's backends get: fake tensors of fixed sizes, and torch's symbols for the numbers.
    Raises `SymbolFixed` where it relied on a number's value, and whatever the backend raises.
    """
    from torch._guards import TracingContext, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    shapes = ShapeEnv()
    fake_mode = FakeTensorMode(shape_env=shapes)
    inputs = [
        fake_mode.from_tensor(example, static_shapes=True)
        if isinstance(example, torch.Tensor)
        else _symbol(shapes, at, example)
        for at, example in enumerate(example_inputs)
    ]
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, given in zip(placeholders, inputs, strict=True):
        node.meta["example_value"] = given
    with tracing(TracingContext(fake_mode)):
        compiled = backend(graph, inputs)
    if shapes.guards or shapes.replacements:
        raise SymbolFixed(", ".join(str(guard.expr) for guard in shapes.guards))
    return compiled


class SymbolFixed(RuntimeError):
    """A backend's code serves only some values of a number that varies; the message says which."""


def _symbol(shapes: Any, position: int, number: int | float) -> Any:
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    source = ConstantSource(f"number_{position}")
    made = shapes.create_unspecified_symbol(number, source, dynamic_dim=DimDynamic.DYNAMIC)
    create = shapes.create_symintnode if isinstance(number, int) else shapes.create_symfloatnode
    return create(made, hint=number, source=source)


def run_uncompiled(graph: Any, example_inputs: list) -> Callable:
    """The backend `eager`: run the captured graph operator by operator."""
    return graph.forward


def backend_name(backend: str | Backend) -> str:
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def _torch_backends(hidden: tuple[str, ...]) -> list[str]:
    from torch._dynamo.backends import registry

    return registry.list_backends(exclude_tags=hidden)
