"""The report: plain, versioned data about one run of a program. All that the terminal, the server and the editor see.

The engine reads these facts off its own artefacts; nothing here is written by hand while compiling. Identifiers are
stable within a report: `f0` a function, `f0.e1` its second entry, `g3` a graph, `k2` a kernel.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from dynascope.dataclass import dataclass
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserStack

VERSION = 1

EntryStatus = Literal["compiled", "uncompiled"]
RegionKind = Literal["function", "resume"]
ExitKind = Literal["return", "break", "raise", "none"]
Phase = Literal["forward", "backward"]
Cause = Literal[
    "number", "attribute", "size", "none", "grad-mode", "state", "type", "dtype", "requires-grad", "layout", "length",
    "value", "object", "other",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class LineLink:
    """Line `line` (from 1) of a generated text came from `span` of the user's source."""

    line: int
    span: Span


@dataclass(frozen=True, slots=True)
class StageText:
    """What one stage made, printed: runnable Python or source text, with the user's places beside its lines.

    `stage` is one of trace, bytecode, rewritten-bytecode, bytecode-beside-rewritten, rewritten-python, torch,
    joint, aten-forward, aten-backward, core-forward, core-backward,
    prims-forward, prims-backward, loops-forward, loops-backward, groups-forward, groups-backward, wrapper-forward, wrapper-backward.
    Some only where they are asked for (`Options.levels`). `language` is an editor's language identifier.
    """

    stage: str
    language: str
    text: str
    links: tuple[LineLink, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueFact:
    """A tensor that a line of the user's makes: `description` reads `f32[8, 64]` (sizes in elements) and device.

    `name` is the node's in the graph; `variable` is what the user's line calls it, where it gives it a name. `part` is the value's
    own expression where the line goes on with it: `model(x)` of `y = model(x).squeeze(-1)`; empty where the line gives it to nobody.
    """

    name: str
    description: str
    operation: str
    span: Span | None
    stack: UserStack = ()
    variable: str | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class GuardFact:
    """One assumption: `expression` in the user's words, `check` in English, the line that made it in `span`.

    `value` is what the expression has to be, as short as a label: `f32[2, 5]`, `6`, `None`; empty where no label says it.
    """

    expression: str
    check: str
    kind: str
    span: Span | None = None
    stack: UserStack = ()
    value: str = ""


EMPTY = "no keys"
"""What a dict was that had none."""
NOT_THERE = "not there"
"""What a name of a library was that the library made at its first use."""
ONE_OBJECT, SEVERAL_OBJECTS = "one object", "several objects"
"""What two places held."""


@dataclass(frozen=True, slots=True)
class ChangeFact:
    """What was different from an earlier compilation, so that another was made: `pos` was 5 and is 6, a number."""

    expression: str
    cause: Cause
    before: str
    now: str

    @property
    def is_first_filling(self) -> bool:
        """What the first call finds without a value gets one and keeps it: gradients, an optimizer's state, a table of metrics."""
        is_gradient = self.cause == "none" and self.before == "None" and self.expression.endswith(".grad")
        return is_gradient or self.before in (EMPTY, NOT_THERE)


@dataclass(frozen=True, slots=True)
class BorderFact:
    """Two neighbouring operations that did not share a kernel, and why. Names as in the loops text."""

    producer: str
    consumer: str
    explanation: Explanation
    producer_span: Span | None = None


@dataclass(frozen=True, slots=True)
class CostFact:
    """Where the program was profiled: how often something ran, and the seconds that all its runs took."""

    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BesideEager:
    """Seconds of one call of a graph with its backward pass, the fastest of several: compiled, and operator by operator."""

    compiled: float
    eager: float
    first: float | None = None
    """Of the first call, where backends are compared."""
    difference: float | None = None
    """The largest one from eager's results and gradients, in tolerances: up to 1 is equal."""
    kernels: int | None = None
    """That torch's own compiler wrote, where it is the backend."""
    failure: str = ""
    """Why nothing was compared."""


@dataclass(frozen=True, slots=True)
class KernelFact:
    """One generated kernel. `links` go from its lines to the user's; sizes in bytes, work in scalar operations.

    `spans` are the user's places it computes for; what library code does counts for the line that called it, and for the
    line that built the layer.
    """

    identifier: str
    name: str
    language: Literal["cpp", "triton"]
    phase: Phase
    graph: str
    text: str
    links: tuple[LineLink, ...]
    spans: tuple[Span, ...]
    operations: tuple[str, ...]
    bytes_read: int | None = None
    bytes_written: int | None = None
    path: str | None = None
    cost: CostFact | None = None
    launches: int = 1
    """How often a call of the graph runs it: steps that compute the same share one kernel."""


@dataclass(frozen=True, slots=True)
class ExternFact:
    """An operation that a library runs (matmul, convolution, attention, or one we do not lower), and why."""

    operation: str
    phase: Phase
    span: Span | None
    explanation: Explanation | None = None
    spans: tuple[Span, ...] = ()
    """The user's places, as for a kernel."""
    cost: CostFact | None = None


@dataclass(frozen=True, slots=True)
class MemoryFact:
    """The most that a graph holds of what it makes, at the sizes at hand: where that is, and what runs there."""

    phase: Phase
    peak_bytes: int
    step: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class TensorFact:
    """A tensor in memory that a step reads or writes: `name` is the graph's, `description` reads `f32[8, 64]`."""

    name: str
    description: str
    bytes: int | None = None
    is_given: bool = False
    """Whether the graph gets it: an argument, a parameter, what was saved for the backward pass."""
    called: str = ""
    """What the user calls it: `self.proj.weight`, `scores`; empty where the program has no name for it."""


@dataclass(frozen=True, slots=True)
class OperationFact:
    """An operator that a step computes, and the user's place that it comes from."""

    operator: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class StepFact:
    """What runs at once: a kernel of ours, or (`kernel` is None) a library's call. Steps are in running order."""

    name: str
    phase: Phase
    operations: tuple[OperationFact, ...]
    reads: tuple[TensorFact, ...] = ()
    writes: tuple[TensorFact, ...] = ()
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class GraphFact:
    """One captured graph and what became of it."""

    identifier: str
    operations: int
    backend: str
    values: tuple[ValueFact, ...] = ()
    texts: tuple[StageText, ...] = ()
    kernels: tuple[str, ...] = ()
    externs: tuple[ExternFact, ...] = ()
    borders: tuple[BorderFact, ...] = ()
    saved_bytes: int | None = None
    memory: tuple[MemoryFact, ...] = ()
    beside_eager: BesideEager | None = None
    notes: tuple[Explanation, ...] = ()
    steps: tuple[StepFact, ...] = ()


@dataclass(frozen=True, slots=True)
class FileLines:
    """Lines of one file, in order."""

    file: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EntryFact:
    """One compilation of a region: a function from its start, or from the instruction after a break."""

    identifier: str
    region: RegionKind
    span: Span
    status: EntryStatus
    exit: ExitKind
    graph: str | None = None
    guards: tuple[GuardFact, ...] = ()
    reason: Explanation | None = None
    """Why the graph ended here (exit break), or why nothing was compiled (status uncompiled)."""
    recompiled: Explanation | None = None
    """Which guard of an earlier entry failed, when this is not the region's first entry."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall seconds by stage: capture, differentiate, lower, fuse, emit, build, assemble."""
    texts: tuple[StageText, ...] = ()
    change: ChangeFact | None = None
    """The same as `recompiled`, as data."""
    callers: UserStack = ()
    """Where the call came from that made this compilation, outermost first; of a region `function` only."""
    followed: tuple[FileLines, ...] = ()
    """The lines of the user's files that this compilation stands for, whether or not they made a value."""
    calls: int = 0
    """How often it ran so far."""
    place: int = 0
    """Which region of its function, 0 for its start: the entries of one place are the variants of each other."""
    last_use: int = 0
    """Grows with every use of any entry: the entry with the highest number was used last."""
    began: str = ""
    """Of a region after a break: the entry of the function's start whose call came here and made this one."""


@dataclass(frozen=True, slots=True)
class FunctionFact:
    """A function of the user's that the engine was asked to compile; `span` runs from its first line to its last.

    `compiled_at` is the expression that asked for it, such as `torch.compile(model)`; of a library's module that the program only calls
    it is the module, `model` of `model(x)`, and of one that a library calls for it what of the library was called, `trainer.train`; else
    None where nothing in the program asked.
    """

    identifier: str
    name: str
    span: Span
    entries: tuple[EntryFact, ...] = ()
    compiled_at: Span | None = None


@dataclass(frozen=True, slots=True)
class CheckFact:
    """A value or a gradient that a run in float64 was compared with: how far eager is from it, and compiled code.

    Both are the largest difference of an element, by the largest element. `differs`: compiled code is further away than another
    order of the same additions explains.
    """

    function: str
    name: str
    kind: Literal["value", "gradient"]
    eager: float
    compiled: float
    differs: bool
    span: Span | None = None
    stack: UserStack = ()


@dataclass(frozen=True, slots=True)
class ProgramFact:
    """The program that ran. `exit_code` is None while it runs; `signal` where one ended it."""

    file: str
    arguments: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: int | None = None
    seconds: float | None = None
    error: Explanation | None = None
    peak_bytes: int | None = None
    """The most memory that the process had at once; of a GPU's, where it used one."""
    rank: int | None = None
    """Of a process among several that work together."""
    asks: bool | None = None
    """Whether the program asks for compilation itself; None where that is not known yet."""


@dataclass(frozen=True, slots=True)
class EnvironmentFact:
    python: str
    torch: str
    dynascope: str
    device: str
    compiler: str | None = None
    triton: str | None = None
    bandwidth: float | None = None
    """Bytes a second that a large copy reads and writes here; where the program was profiled."""


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Everything one run says. `version` changes whenever a reader of the old form would misread the new."""

    program: ProgramFact
    environment: EnvironmentFact
    functions: tuple[FunctionFact, ...] = ()
    graphs: tuple[GraphFact, ...] = ()
    kernels: tuple[KernelFact, ...] = ()
    notes: tuple[Explanation, ...] = ()
    checks: tuple[CheckFact, ...] = ()
    """In the order of the program; only where somebody asked for them."""
    version: int = VERSION
