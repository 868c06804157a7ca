"""The hint after a line: the tensor it makes, and by identifier the kernels that compute it; their names are long.

q, k, v = self.c_attn(x).split(C, dim=2)          q, k, v f32[2, 5, 64]
values, order = x.sort(-1)                        values f32[8, 64], order i64[8, 64]
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
LONGEST = 43
"""Characters of a hint that VS Code shows; it cuts the end off a longer one, where the tensor's type stands."""
LONGEST_OF_SEVERAL = 36
"""Beside them at least one kernel has room."""
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
        own = [kernel.identifier for kernel in kernels if kernel.phase == "forward"]
        rows = [f"{value.variable or value.name}: {value.description} ({value.operation})" for value in values]
        rows += [f"{kernel.identifier}: kernel {kernel.name} ({kernel.phase})" for kernel in kernels]
        stale = view.is_stale_line(old)
        name, description = _value_text(values, facts.path, old) if values else ("", "")
        if values and _broke_inside(view, values[-1], old):
            name, description = "", ""
        label = _fitted([STALE] if stale else [], name, description, own)
        if description or own:
            rows = ["The text changed since this run.", *rows] if stale else rows
            yield Hint(line, MARGIN + label, "\n".join(dict.fromkeys(rows)))


def _fitted(before: list[str], name: str, description: str, kernels: list[str]) -> str:
    """All of it where there is room; else fewer kernels, then `…` in place of the expression whose type it is."""
    several = [", ".join([*kernels[:many], *(["…"] if len(kernels) > many else [])]) for many in (SHOWN, 1)]
    choices = [(first, last) for first in dict.fromkeys((name, name and "…")) for last in dict.fromkeys(several)]
    made = [" · ".join(filter(None, [*before, f"{first} {description}".strip(), last])) for first, last in choices]
    return next((label for label in made if len(MARGIN + label) <= LONGEST), made[-1])


def _broke_inside(view: FileView, last: ValueFact, line: int) -> bool:
    """Whether the line's call was left by a break in library code: what was made last there is nothing that the line gives."""
    is_own = last.span is None or (last.span.file, last.span.line) == (view.facts.path, line)
    return not is_own and any(problem.is_break and problem.span.line == line for problem in view.facts.problems)


def _value_text(values: list[ValueFact], path: str, line: int) -> tuple[str, str]:
    """The last tensor, by its expression where the line goes on with it; where the line gives several names at once, all that are of
    one kind, or each with its type where there is room. What is written to has no type of its own."""
    last = next((value for value in reversed(values) if "[" in value.description), values[-1])
    if last.variable is None:
        # Not beside the line that built a layer, which is another than the one that called it.
        place = next((frame.span for frame in reversed(last.stack) if is_user_file(frame.span.file)), None)
        is_here = place is not None and (place.file, place.line) == (path, line) and bool(last.description)
        if last.part == "" and is_here:
            return "", ""
        return last.part if last.part is not None and is_here else "", last.description
    named = {value.variable: value.description for value in values if value.variable and "[" in value.description}
    if len(set(named.values())) > 1:
        each = ", ".join(f"{name} {description}" for name, description in named.items())
        return ("", each) if len(each) <= LONGEST_OF_SEVERAL else (last.variable, last.description)
    alike = dict.fromkeys(v.variable for v in values if v.variable and v.description == last.description)
    return ", ".join(alike) if 1 < len(alike) <= SHOWN + 1 else "", last.description
