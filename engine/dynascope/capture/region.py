"""What one capture is of, and how it is to be done.

CodeRegion(f.__code__, "f")                                   a function from its start
CodeRegion(resume_code, "f", parent=..., resumed_at=Span)     the rest of it, after a break
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from types import CodeType, FunctionType
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.guards.source import Source
from dynascope.report.reason import Reason
from dynascope.report.span import Span
from dynascope.sizes.ties import Tie


@dataclass(frozen=True, slots=True, eq=False)
class CodeRegion:
    """A function from its start, or from the instruction after a break. `code` always starts with the region.

    `qualified_name` is the user's function's, for a resumed region too.
    """

    code: CodeType
    qualified_name: str
    parent: CodeRegion | None = None
    resumed_at: Span | None = None
    varying: set[Source] = field(default_factory=set)
    """Numbers and sizes that the part before a break knows to be others at other calls."""
    results: set[Source] = field(default_factory=set)
    """What Python's call at a break gives: a float is a number that varies."""
    tables: dict[Hashable, tuple[Any, ...]] = field(default_factory=dict)
    """Of the root region: the entry tables of the places where it goes on, so that a loop meets its own again."""

    @property
    def span(self) -> Span:
        """From the region's first line to its function's last."""
        lines = [line for _, _, line in self.code.co_lines() if line]
        first = self.resumed_at.line if self.resumed_at else self.code.co_firstlineno
        return Span(self.code.co_filename, first, None, max([first, *lines]), None)

    @property
    def root(self) -> CodeRegion:
        """The region of the whole function."""
        return self if self.parent is None else self.parent.root


def inline_everything(function: FunctionType) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """`symbolic` names the places whose Python numbers varied: they become inputs of the graph.

    `fixed` names places whose numbers an operator needs as constants: never inputs.
    `dynamic` True makes every Python int and float an input from the first call, False never.
    """

    fullgraph: bool = False
    dynamic: bool | None = None
    symbolic: frozenset[Source] = frozenset()
    results: frozenset[Source] = frozenset()
    """What Python gave at the break before: a float is an input from the first call on."""
    fixed: frozenset[Source] = frozenset()
    earlier: Mapping[Source, int] = field(default_factory=dict)
    """What sizes of tensors were at earlier captures, as a number that those share that were equal at each: others are not taken to be
    equal now."""
    ties: Mapping[Source, Tie[Source]] = field(default_factory=dict)
    """Numbers that the program does not run with others of, each by itself, by what gives them of others. That is relied on."""
    apart: Mapping[Source, int] = field(default_factory=dict)
    """What tells sizes apart that are equal now by chance: others with the same number are still taken to be equal."""
    excluded: frozenset[Any] = frozenset()
    """Operators of the program's own libraries that no graph may hold."""
    differentiates: bool = True
    """Whether what compiles the graph understands differentiation inside it."""
    says_it_compiles: bool = True
    """Whether the program is told that it is compiled, where it asks."""
    makes_leaves: bool = True
    """Whether `requires_grad_` of a tensor made inside is part of a graph: who differentiates the results must not tell."""
    begins_leaves: bool = True
    """Whether a leaf that is told to require grad may be told so when the graph begins."""
    leaves_begun: frozenset[Source] = frozenset()
    """Those that are."""
    checks_devices: bool = True
    """Whether a library's check of a tensor on a device is part of a graph: nothing behind it may need that it held."""
    draws: bool = True
    """Whether numbers from the process's own generators are drawn by the graph: not where one decides what is done, or says a place."""
    follows_inference: bool = True
    """Whether `torch.inference_mode` inside is part of a graph, which then runs in it: what is made outside may not leave."""
    by_turns: bool = True
    """Whether a loop that an earlier break left is followed for one turn, whatever its item is."""
    follows_generators: bool = True
    """Whether a generator that a break left alive is followed: to its end, or not at all."""
    follows_data: bool = True
    """Whether a loop over a few tensors that an earlier break left is followed to its end."""
    follows_devices: bool = True
    """Whether `with torch.device(...)` inside is part of a graph, which then ends behind it."""
    goes_both_ways: bool = True
    """Whether of a function that returns one of two masks both are in the graph."""
    leaves_out_rows: bool = True
    """Whether the rows that torch's encoder leaves the hidden ends out of are followed."""
    recorded: frozenset[FunctionType] = frozenset()
    """Functions that the program allows in graphs as they are (`torch.compiler.allow_in_graph`), and that cannot be followed."""
    records: bool = False
    """Whether the graph is called with gradients on though they are off where the region begins: it switches them off, and on again
    where the program does."""
    late: bool = True
    """Whether numbers that only the run knows may be part of a graph."""
    settled: bool = False
    """Sizes that operators need as constants are found by capture: what compiles the graph would not say so."""
    waits: bool = True
    """Whether a call that makes what the next one finds (a lazy module's parameters) may run as it was written, with nothing captured."""
    trace: Callable[[str], None] | None = None
    """Given what capture did, instruction by instruction, as text."""
    inline: Callable[[FunctionType], bool] = inline_everything
    instruction_limit: int = 2_000_000
    depth_limit: int = 120
    unroll_limit: int = field(default=100_000)
    stop: tuple[int, Reason] | None = None
    """Before which instruction, counted over all functions, the graph ends, and why: what comes after it cannot be made again."""
