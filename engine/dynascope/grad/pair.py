"""The result of differentiation: two graphs, and plain data that says how their ends meet the user's values.

Forward graph:  inputs -> computed outputs, new contents of mutated inputs, saved values
Backward graph: saved values, tangents -> one gradient or None for each input
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import fx

from dynascope.grad.tape import Layout
from dynascope.grad.views import ViewRecipe


@dataclass(frozen=True, slots=True)
class Computed:
    """Output number `index` of the forward graph."""

    index: int


@dataclass(frozen=True, slots=True)
class InputItself:
    """The very object that came in."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """Not computed: None, a string, a number that the graph holds."""

    value: Any


@dataclass(frozen=True, slots=True)
class ViewOf:
    """A view, made again outside the graph, so that it shares memory with its base. `detached`: without history."""

    base: Computed | InputItself
    recipes: tuple[ViewRecipe, ...]
    detached: bool


Output = Computed | InputItself | Constant | ViewOf


@dataclass(frozen=True, slots=True)
class Mutation:
    """Input `input` takes the contents of forward output `output` after the graph ran.

    `records_history`: in grad mode, so that the input's gradient flows into the graph. `is_hidden`: through `.data`, which
    does not count as a change for autograd's check of saved tensors.
    """

    input: int
    output: int
    records_history: bool
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class Saved:
    """A value kept for the backward pass: forward output `index`, or input `index` itself."""

    origin: Computed | InputItself
    name: str
    layout: Layout | None
    """None for a Python number."""


@dataclass(frozen=True, slots=True)
class Tangent:
    """The gradient that comes in for forward output `output`, expected in `layout`.

    `sources` are the inputs that this output was computed from, as autograd sees it.
    """

    output: int
    layout: Layout
    sources: frozenset[int]


@dataclass(frozen=True, slots=True)
class GradPair:
    """`differentiable` are the forward outputs that carry a gradient; `gradient_inputs` the inputs that receive one."""

    forward: fx.GraphModule
    backward: fx.GraphModule | None
    region: str
    input_count: int
    outputs: tuple[Output, ...]
    mutations: tuple[Mutation, ...]
    computed_count: int
    saved: tuple[Saved, ...]
    tangents: tuple[Tangent, ...]
    gradient_inputs: tuple[int, ...]
    inputs_require_grad: bool

    @property
    def saved_bytes(self) -> int:
        """Bytes kept alive for the backward pass beyond the inputs."""
        kept = (s.layout for s in self.saved if isinstance(s.origin, Computed) and s.layout is not None)
        return sum(layout.byte_count for layout in kept)

    @property
    def visible_count(self) -> int:
        """Forward outputs before the saved ones: computed, then mutated."""
        return self.computed_count + len(self.mutations)
