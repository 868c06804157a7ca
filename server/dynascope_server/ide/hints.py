"""The hint after a line: the tensor it makes, and by identifier the kernels that compute it; their names are long.

q, k, v = self.c_attn(x).split(C, dim=2)          q, k, v f32[2, 5, 64]
y = torch.softmax(x, -1)                          f32[8, 64] · k0
y = model(x).squeeze(-1)                          model(x) f32[8, 1] · k1       what follows was not compiled
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynascope.report.facts import ValueFact
from dynascope.report.user_files import is_user_file

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
        parts = [_value_text(values, facts.path, old)] if values else []
        own = [kernel.identifier for kernel in kernels if kernel.phase == "forward"]
        parts += [", ".join([*own[:SHOWN], *(["…"] if len(own) > SHOWN else [])])] if own else []
        rows = [f"{value.variable or value.name}: {value.description} ({value.operation})" for value in values]
        rows += [f"{kernel.identifier}: kernel {kernel.name} ({kernel.phase})" for kernel in kernels]
        stale = view.is_stale_line(old)
        if any(parts):
            label = " · ".join([*([STALE] if stale else []), *filter(None, parts)])
            rows = ["The text changed since this run.", *rows] if stale else rows
            yield Hint(line, MARGIN + label, "\n".join(dict.fromkeys(rows)))


def _value_text(values: list[ValueFact], path: str, line: int) -> str:
    """The last tensor, by its expression where the line goes on with it; where the line gives several names at once, all that are of
    one kind."""
    last = next((value for value in reversed(values) if "[" in value.description), values[-1])
    if last.variable is None:
        # Not beside the line that built a layer, which is another than the one that called it.
        place = next((frame.span for frame in reversed(last.stack) if is_user_file(frame.span.file)), None)
        is_here = place is not None and (place.file, place.line) == (path, line)
        return f"{last.part} {last.description}" if last.part is not None and is_here else last.description
    alike = dict.fromkeys(v.variable for v in values if v.variable and v.description == last.description)
    return f"{', '.join(alike)} {last.description}" if 1 < len(alike) <= SHOWN + 1 else last.description
