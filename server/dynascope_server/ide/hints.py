"""The hint after a line: the tensor it makes, and by identifier the kernels that compute it; their names are long.

q, k, v = self.c_attn(x).split(C, dim=2)          q, k, v f32[2, 5, 64]
y = torch.softmax(x, -1)                          f32[8, 64] · k0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynascope.report.facts import ValueFact

from dynascope_server.ide.file_facts import FileView

MARGIN = "  "
"""Editors pad a hint by a few pixels only, which makes it look like code."""
SHOWN = 3
STALE = "stale"


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
        parts = [_value_text(values)] if values else []
        own = [kernel.identifier for kernel in kernels if kernel.phase == "forward"]
        parts += [", ".join([*own[:SHOWN], *(["…"] if len(own) > SHOWN else [])])] if own else []
        rows = [f"{value.variable or value.name}: {value.description} ({value.operation})" for value in values]
        rows += [f"{kernel.identifier}: kernel {kernel.name} ({kernel.phase})" for kernel in kernels]
        stale = view.is_stale_line(old)
        if any(parts):
            label = " · ".join([*([STALE] if stale else []), *filter(None, parts)])
            rows = ["The text changed since this run.", *rows] if stale else rows
            yield Hint(line, MARGIN + label, "\n".join(dict.fromkeys(rows)))


def _value_text(values: list[ValueFact]) -> str:
    """The last value; where the line gives several names at once, all that are of one kind."""
    last = values[-1]
    if last.variable is None:
        return last.description
    alike = dict.fromkeys(v.variable for v in values if v.variable and v.description == last.description)
    return f"{', '.join(alike)} {last.description}" if 1 < len(alike) <= SHOWN + 1 else last.description
