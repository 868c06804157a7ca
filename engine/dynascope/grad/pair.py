"""The result of differentiation: two graphs, and plain data that says how their ends meet the user's values.

Forward graph:  inputs -> computed outputs, new contents of mutated inputs, saved values
Backward graph: saved values, tangents -> one gradient or None for each input
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.tape import Layout
from dynascope.grad.views import ViewRecipe
from dynascope.sizes import Size

if TYPE_CHECKING:
    from dynascope.grad.program import Program


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
class Expression:
    """A number computed from those that came in."""

    size: Size


@dataclass(frozen=True, slots=True)
class ViewOf:
    """A view, made again outside the graph, so that it shares memory with its base.

    Without history it is `detached` before the view is taken, or after: then autograd does not see it as a view. `own_writes`: how
    often it was written inside, where it comes by `.data`, so that a write to it counts as none of the base. `unrecorded`: it was made
    under `no_grad`, so autograd refuses it once it or its base is written with gradients.
    """

    base: Computed | InputItself
    recipes: tuple[ViewRecipe, ...]
    detached: Literal["no", "before", "after"]
    own_writes: int | None = None
    unrecorded: bool = False


@dataclass(frozen=True, slots=True)
class OutputOf:
    """Result number `position` of the captured graph, or the tensor that it is a view of."""

    position: int
    is_base: bool


Output = Computed | InputItself | Constant | Expression | ViewOf


@dataclass(frozen=True, slots=True)
class Mutation:
    """Input `input` takes the contents of forward output `output` after the graph ran.

    `records_history`: in grad mode, so that the input's gradient flows into the graph. `count`: how many writes autograd's check of
    saved tensors counts; none through `.data`.
    """

    input: int
    output: int
    records_history: bool
    count: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A value kept for the backward pass: forward output `origin.index`, or input `origin.index` itself.

    In every recording of the program it is output `index` of step number `step`, or input `index` where that is None.
    """

    origin: Computed | InputItself
    name: str
    layout: Layout | None
    """None for a Python number."""
    step: int | None
    index: int
    is_held: bool = field(default=False, repr=False)
    """Whether what is kept is the memory alone: the backward pass reads what it holds then, whoever wrote to it."""


@dataclass(frozen=True, slots=True)
class Tangent:
    """The gradient that comes in for forward output `output`, expected in `layout`.

    `place` is where a run of the captured graph itself has the tensor that it is the gradient of.
    """

    output: int
    layout: Layout
    place: OutputOf | InputItself


@dataclass(frozen=True, slots=True)
class Twin:
    """The gradient of input `index` is that of input `first`, or another tensor in its memory. The graph gives None for it."""

    index: int
    first: int
    is_same_object: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """What eager's backward pass reads and this one does not: that it was changed in place is an error all the same.

    A result is known to the error as output `number` of `function` in autograd's graph. `writes`: how often inputs had been written
    when eager kept it, where that matters because they may share its version. What `is_written` is an input that eager keeps as the
    region leaves it: its version is that when all is written.
    """

    origin: Computed | InputItself
    function: str
    number: int
    writes: tuple[tuple[int, int], ...] | None = None
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Overwritten:
    """What autograd keeps of a region's tensors and the region itself writes to: where eager's backward pass reads it first, it raises.

    It is known to the error as output `number` of `function` in autograd's graph, if it has one there. Of an input the versions are
    counted from the one that it came with.
    """

    layout: Layout
    function: str
    number: int
    kept: int
    now: int
    input: int | None
    leads_to: frozenset[int] = frozenset()
    """The inputs that the function which reads it leads to: a pass that enters none of them does not read it."""


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
    roots: dict[str, int] = field(default_factory=dict)
    """The inputs that are numbers which vary, by the names that sizes are written in."""
    twins: tuple[Twin, ...] = ()
    viewed: tuple[int, ...] = ()
    """Leaves of whose gradients others' are views."""
    watched: tuple[Watched, ...] = ()
    kept_outputs: tuple[tuple[int, str, int], ...] = ()
    """(forward output, function, number): results that eager keeps, as its errors call them."""
    functions: tuple[tuple[int, str, int], ...] = ()
    """The same of all results with a history: another region may keep them."""
    counted: tuple[int, ...] = ()
    """Inputs that count as written and hold what they held, once for each time."""
    versions: tuple[tuple[int, int], ...] = ()
    """(forward output, how often it was written): results that were written inside."""
    program: Program | None = None
    """What was differentiated: for second derivatives and parts of the backward pass, and to be recorded at other levels."""
    steps: tuple[Any, ...] = ()
    """The operators of the forward pass as they were recorded: `Saved.step` counts them, in every recording."""
    reached: frozenset[int] = frozenset()
    """The inputs that a backward pass through all results leads to, be it without a gradient."""
    possible_after: frozenset[int] = frozenset()
    """The tangents, by number, that eager takes once more after a backward pass through all: nothing was kept for them."""
    overwritten: tuple[Overwritten, ...] = ()
    """What a backward pass through all results finds changed, in eager, in the order in which it reads: `backward` reads it as it was."""

    @property
    def watched_before_writes(self) -> tuple[Watched, ...]:
        return tuple(watched for watched in self.watched if not watched.is_written)

    @property
    def watched_after_writes(self) -> tuple[Watched, ...]:
        """The last of `watched`."""
        return tuple(watched for watched in self.watched if watched.is_written)

    @property
    def written_inside(self) -> tuple[tuple[int, int], ...]:
        """(input, forward output) of the mutations that the forward graph may make itself: the output is then the input. Not where autograd
        stands between, which must see a result for itself, and not of what is kept for the backward pass."""
        kept = {each.origin for each in (*self.saved, *self.watched_before_writes)} | {InputItself(index) for index in self.gradient_inputs}
        made = ((m.input, m.output) for m in self.mutations if not m.records_history)
        return tuple(pair for pair in made if kept.isdisjoint((InputItself(pair[0]), Computed(pair[1]))))

    @property
    def saved_bytes(self) -> int:
        """Bytes kept alive for the backward pass beyond the inputs."""
        kept = (s.layout for s in self.saved if isinstance(s.origin, Computed) and s.layout is not None)
        return sum(layout.byte_count for layout in kept)

    @property
    def visible_count(self) -> int:
        """Forward outputs before the saved ones: computed, then mutated."""
        return self.computed_count + len(self.mutations)


@dataclass(frozen=True, slots=True)
class PartialBackward:
    """A backward pass for some of the tangents: saved values, those tangents -> one gradient or None for each input."""

    graph: fx.GraphModule
    twins: tuple[Twin, ...]
    reads: frozenset[Computed | InputItself] | None = None
    """The inputs and results that eager reads in such a pass, of those that it keeps. None: all of them."""
    possible_after: frozenset[int] = frozenset()
    """The tangents that eager takes after such a pass has freed what it read."""
    overwritten: tuple[Overwritten, ...] = ()
