"""What became of a line, as Markdown: values, kernels, guards, and why it was not fused or broke the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dynascope.report.facts import KernelFact, ValueFact
from dynascope.report.lines import ranked

from dynascope_server.ide.addresses import Address, owner_of, reason_address
from dynascope_server.ide.documents import kernel_document_name
from dynascope_server.ide.file_facts import FileView
from dynascope_server.ide.numbers import size

LinkOf = Callable[[Address], str]
LANGUAGE_NAMES = {"cpp": "C++", "triton": "Triton"}
SHOWN = 8
"""Facts of one kind on one line; a hover is read at a glance and the documents have the rest."""


def hover(view: FileView, present_line: int, link_of: LinkOf) -> str | None:
    """Markdown for a line (from 1) of the present text; None where the report says nothing about it."""
    line = view.old_line(present_line)
    if line is None:
        return None
    sections = [section for section in _sections(view, line, link_of) if section]
    if not sections:
        return None
    note = "*stale: the text changed after this run*" if view.stale else ""
    return "\n\n".join(part for part in (note, *sections) if part)


def _sections(view: FileView, line: int, link_of: LinkOf) -> Iterator[str]:
    facts = view.facts
    yield _problem_section(view, line, link_of)
    yield _listed("**Values**", [_value_row(value) for value in facts.values.get(line, ())])
    kernels = [_kernel_row(kernel, link_of, view.program) for kernel in facts.kernels.get(line, ())]
    externs = [
        f"`{extern.operation}` ({extern.phase}) runs in a library" + _because(extern.explanation)
        for extern in facts.externs.get(line, ())
    ]
    yield _listed("**Compiled into**", [*kernels, *externs])
    borders = [
        f"`{border.producer}` and `{border.consumer}`: {border.explanation.message}"
        for border in facts.borders.get(line, ())
    ]
    yield _listed("**Not fused**", borders)
    yield _listed("**Assumed here**", [guard.check for guard in ranked(facts.guards.get(line, []))])


def _problem_section(view: FileView, line: int, link_of: LinkOf) -> str:
    here = [problem for problem in view.facts.problems if problem.span.line == line]
    return "\n\n".join(
        f"**[{problem.code}]({link_of(reason_address(problem.code))})** {problem.message}" for problem in here
    )


def _value_row(value: ValueFact) -> str:
    return f"`{value.name}`: `{value.description}` ({value.operation})"


def _kernel_row(kernel: KernelFact, link_of: LinkOf, program: str) -> str:
    link = link_of(Address(owner_of(program), kernel_document_name(kernel)))
    traffic = [
        f"{verb} {size(amount)}"
        for verb, amount in (("reads", kernel.bytes_read), ("writes", kernel.bytes_written))
        if amount is not None
    ]
    about = [LANGUAGE_NAMES[kernel.language], kernel.phase, *traffic]
    return f"[{kernel.name}]({link}) ({', '.join(about)})"


def _because(explanation) -> str:
    return f": {explanation.message}" if explanation is not None else ""


def _listed(title: str, rows: list[str]) -> str:
    distinct = list(dict.fromkeys(rows))
    if not distinct:
        return ""
    more = [f"and {len(distinct) - SHOWN} more"] if len(distinct) > SHOWN else []
    return "\n".join([title, "", *(f"- {row}" for row in [*distinct[:SHOWN], *more])])
