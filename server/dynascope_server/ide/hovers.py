"""What became of a line, as Markdown: the value it makes, where that is computed, why not better, and on what terms.

`linear` `f32[32, 256]` → `gelu` `f32[32, 256]`

**Runs in** [k1 mul_erf_add_kernel](...) (C++, reads 32.0 KiB, writes 32.0 KiB) · `addmm` in a library
**Backward** [k4 mul_erf_add_exp_kernel](...) (C++, reads 64.0 KiB, writes 65.0 KiB)
**Assumed here**
- `x` is a float32 tensor of shape [32, 64] on cpu
- [and 13 more](...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dynascope.report.costs import duration
from dynascope.report.facts import ExternFact, GuardFact, KernelFact
from dynascope.report.lines import ranked, short_operation
from dynascope.report.span import Span
from dynascope.report.stages import LANGUAGE_NAMES
from dynascope.report.variants import chosen_variant

from dynascope_server.ide.addresses import Address, owner_of, reason_address
from dynascope_server.ide.documents import guards_document_name, kernel_document_name
from dynascope_server.ide.file_facts import FileView, function_at
from dynascope_server.ide.findings_of_looks import check_words, kernel_cost
from dynascope_server.ide.numbers import size
from dynascope_server.ide.problems import Problem

LinkOf = Callable[[Address], str]
PHASES = (("forward", "Runs in"), ("backward", "Backward"))
SHOWN = 8
"""Facts of one kind on one line; a hover is read at a glance and the documents have the rest."""
GUARDS_SHOWN = 3
USUAL_LIBRARY_CALL = "the library's own kernel runs it."
"""Ends the reason that every matrix product has; it says nothing about this line."""
SAID_BY_THE_LIBRARY_CALL = "extern-call"
"""The code of a border beside a library call, which is listed itself."""


def hover(
    view: FileView, present_line: int, link_of: LinkOf, is_told: Callable[[Problem], bool] = lambda problem: False
) -> str | None:
    """Markdown for a line (from 1) of the present text; None where the report says nothing about it. A problem that the client itself
    tells where the pointer is (`is_told`) is not told again."""
    line = view.old_line(present_line)
    if line is None:
        return None
    sections = [section for section in _sections(view, line, link_of, is_told) if section]
    if not sections:
        return None
    note = "*stale: the text changed after this run*" if view.is_stale_line(line) else ""
    note = "*live: captured as edited; it has not run*" if not note and view.is_live_line(line) else note
    return "\n\n".join(part for part in (note, *sections, _variant_note(view, line)) if part)


def _variant_note(view: FileView, line: int) -> str:
    """Which of several variants the shapes and kernels are of."""
    function = function_at(view.facts, line)
    own = next((f for f in view.report.functions if function and f.identifier == function.identifier), None)
    variant = chosen_variant(own, view.choice) if own is not None else None
    return f"*{variant.title}*" if variant is not None and variant.total > 1 else ""


def _sections(view: FileView, line: int, link_of: LinkOf, is_told: Callable[[Problem], bool]) -> Iterator[str]:
    facts = view.facts
    yield _problem_section(view, line, link_of, is_told)
    yield _value_section(view, line)
    for phase, title in PHASES:
        kernels = [
            _kernel_part(kernel, link_of, view) for kernel in facts.kernels.get(line, ()) if kernel.phase == phase
        ]
        externs = [_extern_part(extern) for extern in facts.externs.get(line, ()) if extern.phase == phase]
        yield _listed(f"**{title}**", [*kernels, *externs], SHOWN)
    borders = [
        f"`{border.producer}` and `{border.consumer}`: {border.explanation.message}"
        for border in facts.borders.get(line, ())
        if border.explanation.code != SAID_BY_THE_LIBRARY_CALL
    ]
    yield _listed("**Not fused**", borders, SHOWN)
    checks = [check_words(fact) for fact in view.report.checks if fact.span and _is_here(fact.span, view, line)]
    yield _listed("**Beside float64**", checks, SHOWN)
    guards = ranked(facts.guards.get(line, []))
    yield _listed(
        "**Assumed here**", [guard.check for guard in guards], GUARDS_SHOWN, _guards_link(view, guards, link_of)
    )


def _is_here(span: Span, view: FileView, line: int) -> bool:
    return span.line == line and span.file == view.path


def _problem_section(view: FileView, line: int, link_of: LinkOf, is_told: Callable[[Problem], bool]) -> str:
    here = [problem for problem in view.facts.problems if problem.span.line == line and not is_told(problem)]
    told = (f"**[{p.code}]({link_of(reason_address(p.code))})** {p.message.splitlines()[0]}" for p in here)
    return "\n\n".join(dict.fromkeys(told))


def _value_section(view: FileView, line: int) -> str:
    """The line's tensors in the order they are made; the last is the line's own."""
    made = [
        (value.variable or short_operation(value.operation).rsplit(".", 1)[-1], value.description)
        for value in view.facts.values.get(line, ())
    ]
    steps = [f"`{name}` `{description}`" for name, description in dict.fromkeys(made) if description]
    return " → ".join(steps if len(steps) <= SHOWN else [*steps[: SHOWN - 2], "…", steps[-1]])


def _kernel_part(kernel: KernelFact, link_of: LinkOf, view: FileView) -> str:
    link = link_of(Address(owner_of(view.program), kernel_document_name(kernel)))
    traffic = [
        f"{verb} {size(amount)}"
        for verb, amount in (("reads", kernel.bytes_read), ("writes", kernel.bytes_written))
        if amount is not None
    ]
    about = [LANGUAGE_NAMES[kernel.language], *traffic, *filter(None, [kernel_cost(view.report, kernel)])]
    return f"[{kernel.identifier} {kernel.name}]({link}) ({', '.join(about)})"


def _extern_part(extern: ExternFact) -> str:
    message = extern.explanation.message if extern.explanation is not None else ""
    why = message.partition(": ")[2] if not message.endswith(USUAL_LIBRARY_CALL) else ""
    cost = extern.cost
    taken = f", {cost.calls} × {duration(cost.seconds / cost.calls)}" if cost is not None and cost.calls else ""
    return f"`{short_operation(extern.operation)}` in a library{taken}{f': {why}' if why else ''}"


def _guards_link(view: FileView, guards: list[GuardFact], link_of: LinkOf) -> str:
    """The page of the compilation that the first of these guards belongs to."""
    held = (entry for function in view.report.functions for entry in function.entries)
    entry = next((entry for entry in held if guards and guards[0] in entry.guards), None)
    return link_of(Address(owner_of(view.program), guards_document_name(entry))) if entry is not None else ""


def _listed(title: str, rows: list[str], shown: int, link: str = "") -> str:
    distinct = list(dict.fromkeys(rows))
    if not distinct:
        return ""
    more = f"and {len(distinct) - shown} more"
    rest = [f"[{more}]({link})" if link else more] if len(distinct) > shown else []
    return "\n".join([title, "", *(f"- {row}" for row in [*distinct[:shown], *rest])])
