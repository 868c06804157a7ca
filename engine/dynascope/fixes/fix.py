"""What a kind of fix is asked, and what it answers."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dynascope.dataclass import dataclass
from dynascope.fixes.edits import Edit
from dynascope.fixes.source import Source
from dynascope.report.facts import ValueFact
from dynascope.report.findings import Finding
from dynascope.report.span import Span


@dataclass(frozen=True, slots=True)
class Site:
    """A finding in a text, with the expression that it is about."""

    source: Source
    finding: Finding
    node: ast.expr
    file: str = ""
    compiled_at: Span | None = None
    """Where the program asked for the function to be compiled."""
    function_at: Span | None = None
    """The function that was compiled."""
    captured: tuple[ValueFact, ...] = ()
    """All that was captured of the program."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A function that is compiled no more, and those with the work that was in it, which are: by their qualified names."""

    function: str
    compiled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """`title` reads as an order: "Choose with torch.where". Nothing is known yet of whether it is right.

    `witness`: edits of the same text with which the program does otherwise on some call that is compared, or else nothing is proved: of a
    branch that is left out, a call must show what it does. `parts`: functions whose calls are compared though they are no longer compiled.
    """

    title: str
    edits: tuple[Edit, ...]
    witness: tuple[Edit, ...] = ()
    parts: tuple[Parts, ...] = ()


Kind = Callable[[Site], Fix | None]
