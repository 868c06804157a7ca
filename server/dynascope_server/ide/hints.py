"""The hint after a line: the tensor it makes, and by identifier the kernels that compute it; their names are long.

y = torch.softmax(x, -1)            f32[8, 64] · k0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynascope_server.ide.file_facts import FileView

MARGIN = "  "
"""Editors pad a hint by a few pixels only, which makes it look like code."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Hint:
    line: int
    """From 1, in the present text; the hint stands at the line's end."""
    label: str
    tooltip: str


def hints(view: FileView) -> Iterator[Hint]:
    """One hint for each line that makes a tensor or went into a kernel; the last value made stands for the line."""
    facts = view.facts
    for old in sorted(facts.values.keys() | facts.kernels.keys()):
        line = view.lines.line(old)
        if line is None:
            continue
        values, kernels = facts.values.get(old, []), facts.kernels.get(old, [])
        parts = [values[-1].description] if values else []
        own = [kernel.identifier for kernel in kernels if kernel.phase == "forward"]
        parts += [", ".join([*own[:SHOWN], *(["…"] if len(own) > SHOWN else [])])] if own else []
        rows = [f"{value.name}: {value.description} ({value.operation})" for value in values]
        rows += [f"{kernel.identifier}: kernel {kernel.name} ({kernel.phase})" for kernel in kernels]
        if parts:
            yield Hint(line, MARGIN + " · ".join(parts), "\n".join(dict.fromkeys(rows)))
