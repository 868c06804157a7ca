"""What a kind of fix is asked, and what it answers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from dynascope.fixes.edits import Edit
from dynascope.fixes.source import Source
from dynascope.report.findings import Finding


@dataclass(frozen=True, slots=True)
class Site:
    """A finding in a text, with the expression that it is about."""

    source: Source
    finding: Finding
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Fix:
    """`title` reads as an order: "Choose with torch.where". Nothing is known yet of whether it is right.

    `witness`: edits of the same text with which the program does otherwise on some call that is compared, or else nothing is proved: of a
    branch that is left out, a call must show what it does.
    """

    title: str
    edits: tuple[Edit, ...]
    witness: tuple[Edit, ...] = ()


Kind = Callable[[Site], Fix | None]
