"""The program's whole source with what became of each line, for a terminal.

    C  12 | def step(x, w):                          step: 2 graphs, 1 break, 3 kernels
    L  13 |     y = torch.relu(x @ w)                y f32[8, 64] · mm (library), k0
    E  14 |     if y.sum() > 0:

Shapes and kernels are those of one variant of each function, the one that was used last.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from dynascope.report.after_errors import lines_after
from dynascope.report.facts import CompileReport, FunctionFact, ValueFact
from dynascope.report.labels import SEPARATOR, whole_parts
from dynascope.report.lines import LineFacts, files_of, function_totals, line_facts, shown_reason
from dynascope.report.syntax import statement_lines
from dynascope.report.user_files import same_file, shown_path, user_place
from dynascope.report.variants import one_variant

Piece = tuple[str, str]
Line = list[Piece]
SOURCE_WIDTH = 60
LEGEND = "C compiled   L a library's kernel   E run by Python   - never reached"
NUMBERS = ("int", "float", "bool")
STYLES = {"C": "green", "L": "cyan", "E": "yellow", "-": "dim", " ": ""}


def annotated_lines(report: CompileReport, width: int) -> list[Line]:
    shown = one_variant(report)
    lines: list[Line] = []
    for file in files_of(report):
        lines += _annotated_file(report, shown, file, width)
    return [[("", "")], [(LEGEND, "dim")], *lines] if lines else []


def line_states(report: CompileReport, file: str) -> dict[int, str]:
    """`C`, `L`, `E` or `-` for each line of the compiled functions' statements; other lines have no state."""
    statements = statement_lines(file)
    facts = line_facts(report, file)
    followed = set(_followed(report, file))
    states: dict[int, str] = {}
    for function, inside in _ranges(report, file, followed):
        eager = all(entry.status == "uncompiled" for entry in function.entries) if function is not None else False
        for line in inside & statements:
            if states.get(line, "-") == "-":
                states[line] = _state(facts.get(line), line in followed, eager)
    after = _after_handled_errors(report, file)
    states |= {line: "E" for line, state in states.items() if state == "-" and line in after}
    raised = _raised_at(report, file)
    return states | ({raised: "E"} if raised in states else {})


def _after_handled_errors(report: CompileReport, file: str) -> set[int]:
    """What Python runs, or may, behind an error that ended a graph and was handled: in the function itself, or in one that called it."""
    found: set[int] = set()
    for function in report.functions:
        for entry in function.entries:
            reason = entry.reason if entry.exit == "raise" else None
            if reason is None or reason.span is None or shown_reason(report, entry) is None:
                continue
            for span in (reason.span, *(frame.span for frame in reversed(reason.stack))):
                after, is_handled = lines_after(span.file, span.line)
                found |= after if same_file(span.file, file) else set()
                if is_handled:
                    break
    return found


def _raised_at(report: CompileReport, file: str) -> int | None:
    """The line of this file where the error arose that ended the program: Python ran it."""
    error = report.program.error
    place = user_place(error.span, error.stack) if error is not None else None
    return place.line if place is not None and same_file(place.file, file) else None


def _state(facts: LineFacts | None, followed: bool, eager: bool) -> str:
    if eager or (facts is not None and facts.breaks):
        return "E"
    if not followed:
        return "-"
    return "L" if facts is not None and facts.externs and not facts.kernels else "C"


def _followed(report: CompileReport, file: str) -> Iterable[int]:
    for function in report.functions:
        for entry in function.entries:
            for lines in entry.followed:
                if same_file(lines.file, file):
                    yield from lines.lines


def _ranges(report: CompileReport, file: str, followed: set[int]) -> Iterable[tuple[FunctionFact | None, set[int]]]:
    """The lines of each function of the file that was compiled or inlined."""
    for function in report.functions:
        if same_file(function.span.file, file):
            yield function, set(range(function.span.line + 1, function.span.last_line + 1))
    for first, last in inlined_ranges(report, file):
        yield None, set(range(first + 1, last + 1))
    yield None, followed


def inlined_ranges(report: CompileReport, file: str) -> set[tuple[int, int]]:
    """First and last line of each function of the file that capture went through."""
    graphs = (frame for graph in report.graphs for value in graph.values for frame in value.stack)
    guards = (
        frame
        for function in report.functions
        for entry in function.entries
        for guard in entry.guards
        for frame in guard.stack
    )
    return {
        (frame.first_line, frame.last_line)
        for frames in (graphs, guards)
        for frame in frames
        if frame.first_line and same_file(frame.span.file, file)
    }


def _annotated_file(report: CompileReport, shown: CompileReport, file: str, width: int) -> list[Line]:
    """Of a file other than the program, only the functions that were compiled."""
    facts, states = line_facts(shown, file), line_states(report, file)
    source = linecache.getlines(file)
    numbers = range(1, len(source) + 1) if file == report.program.file else _compiled_lines(report, file)
    title = f"---- {shown_path(file)} "
    lines: list[Line] = [[("", "")], [(title, "bold"), ("-" * max(4, width - len(title)), "dim")]]
    previous = 0
    for number in numbers:
        if number != previous + 1 and previous:
            lines.append([("       ...", "dim")])
        previous = number
        text = source[number - 1].rstrip("\n") if number <= len(source) else ""
        lines.append(_annotated_line(number, text, facts.get(number), states.get(number, " "), report, shown, width))
    return lines


def _compiled_lines(report: CompileReport, file: str) -> list[int]:
    numbers: set[int] = set()
    for function in report.functions:
        if same_file(function.span.file, file):
            numbers.update(range(function.span.line, function.span.last_line + 1))
    return sorted(numbers)


def _annotated_line(
    number: int, text: str, facts: LineFacts | None, state: str, report: CompileReport, shown: CompileReport, width: int
) -> Line:
    line: Line = [(f"{state} ", STYLES[state]), (f"{number:4} | ", "dim"), (text, "")]
    told = _headlines(facts, text, report, shown) if facts is not None else []
    if told:
        gap = " " * max(2, SOURCE_WIDTH - len(text))
        room = max(24, width - 9 - len(text) - len(gap))
        line += [(gap, ""), (next((each for each in told if len(each) <= room), whole_parts(told[-1], room)), "cyan")]
    return line


def _headlines(facts: LineFacts, text: str, report: CompileReport, shown: CompileReport) -> list[str]:
    """`gelu f32[32, 256] · addmm (library), k0, backward k4`; the same with fewer values, for where there is little room."""
    whole = {function.identifier: function for function in report.functions}
    totals = [_totals(report, whole.get(function.identifier, function), text) for function in facts.functions]
    named = list(dict.fromkeys(_value_text(value.variable, value.description) for value in _results(facts) if value.description))
    went = [f"{name} (library)" for name in facts.externs] + _kernel_names(facts, shown)
    fewer = [*went[:1], "..."] if len(went) > 1 else went
    made = [(*totals, "; ".join(values), ", ".join(ways)) for values, ways in ((named[-2:], went), (named[-1:], went), (named[-1:], fewer))]
    lines = [SEPARATOR.join(part for part in parts if part) for parts in made]
    return list(dict.fromkeys(line for line in lines if line))


def _results(facts: LineFacts) -> list[ValueFact]:
    """Without the number that was computed on the way to a tensor, which the variable is given in the end."""
    given = {value.variable for value in facts.values if value.description not in NUMBERS}
    return [value for value in facts.values if value.variable is None or value.description not in NUMBERS or value.variable not in given]


def _value_text(variable: str | None, description: str) -> str:
    return f"{variable} {description}" if variable else description


def _kernel_names(facts: LineFacts, report: CompileReport) -> list[str]:
    phases = {kernel.identifier: kernel.phase for kernel in report.kernels}
    backward = [name for name in facts.kernels if phases[name] == "backward"]
    names = [name for name in facts.kernels if phases[name] == "forward"]
    return names + ([f"backward {' '.join(backward)}"] if backward else [])


def _totals(report: CompileReport, function: FunctionFact, text: str) -> str:
    """Of all variants, as in the summary; without the name where the line itself has it."""
    name = "" if f"def {function.name.rsplit('.', 1)[-1]}(" in text else f"{function.name}: "
    if all(entry.status == "uncompiled" for entry in function.entries):
        return f"{name}not compiled"
    graphs, breaks, kernels = function_totals(report, function)
    counted = [(graphs, "graph"), *([(breaks, "break")] if breaks else []), (len(kernels), "kernel")]
    return name + ", ".join(f"{n} {noun}" if n == 1 else f"{n} {noun}s" for n, noun in counted)

