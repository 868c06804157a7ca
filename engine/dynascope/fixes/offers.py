"""Which fixes there may be for what a report found: by the code of the reason, the most likely first.

offers(report, "model.py", text)  ->  [Offer(finding, (Fix("Choose with torch.where", ...), ...)), ...]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from dynascope.dataclass import dataclass
from dynascope.fixes import (
    asked_apart,
    assertions,
    branches,
    collected,
    conversions,
    hoisting,
    indexing,
    kept_numbers,
    loops,
    number_results,
    numbers_left,
    numpy_twins,
    outside,
    own_operators,
    recompilations,
    reporting,
    safe_operands,
    sharing,
    shortcuts,
    sorting,
    while_loops,
    writes,
)
from dynascope.fixes.fix import Fix, Kind, Site
from dynascope.fixes.source import Source
from dynascope.report.facts import CompileReport
from dynascope.report.findings import Finding, findings
from dynascope.report.span import Span
from dynascope.report.user_files import same_file

NUMPY: tuple[Kind, ...] = (numpy_twins.with_torch, numpy_twins.array_with_torch, numpy_twins.function_with_torch)
CHOICES: tuple[Kind, ...] = (branches.chosen_values, branches.chosen_result, branches.chosen_expression)
LEFT: tuple[Kind, ...] = tuple(numbers_left.numbers_left(kind, is_detached) for is_detached in (False, True) for kind in CHOICES)
COLLECTED: tuple[Kind, ...] = (
    collected.given_in_any_case,
    safe_operands.safely(collected.given_in_any_case),
    collected.nothing_added,
)
TOLD: tuple[Kind, ...] = (reporting.told_uncompiled, reporting.told_under_condition)
TAKEN_OUT = (conversions.item_dropped, conversions.conversion_dropped, conversions.list_unbound, conversions.stacked)
NUMBERS: tuple[Kind, ...] = (
    *map(conversions.leading, TAKEN_OUT),
    *map(conversions.detached, TAKEN_OUT),
    conversions.int_kept,
)
TURNS: tuple[Kind, ...] = (loops.every_turn, while_loops.turns_of_a_while)
ORDERS: tuple[Kind, ...] = (sorting.order_found_by_torch, sorting.extreme_found_by_torch)
MATH: tuple[Kind, ...] = (conversions.leading(conversions.math_twin), conversions.detached(conversions.math_twin))
KINDS: dict[str, tuple[Kind, ...]] = {
    "print-call": TOLD,
    "data-dependent-branch": (
        *TOLD,
        conversions.of_two,
        conversions.of_two_numpy,
        assertions.asserted_in_graph,
        # What the text says is a number stays one.
        kept_numbers.chosen_numbers,
        *LEFT,
        *map(safe_operands.safely, LEFT),
        *CHOICES,
        *(safe_operands.safely(kind) for kind in CHOICES),
        *(asked_apart.asked_apart(kind) for kind in (kept_numbers.chosen_numbers, *CHOICES)),
        number_results.chosen_number,
        safe_operands.where_needed(number_results.chosen_number_expression),
        safe_operands.where_needed(writes.written_in_any_case),
        kept_numbers.chosen_floats,
        kept_numbers.number_chosen,
        *COLLECTED,
        shortcuts.left_out,
        shortcuts.unguarded,
        shortcuts.elements_chosen,
        *TURNS,
        *map(safe_operands.safely, TURNS),
        *ORDERS,
    ),
    "data-dependent-value": (
        *TOLD,
        *ORDERS,
        conversions.compared_in_graph,
        *NUMBERS,
        number_results.computed_by_tensors,
        *NUMPY,
        indexing.counted_in_a_table,
        shortcuts.unguarded,
    ),
    "data-dependent-shape": (
        indexing.reduced_under_mask,
        indexing.counted,
        indexing.counted_in_a_table,
        indexing.mask_in_place_of_places,
        indexing.written_under_mask,
    ),
    # A number that is drawn may decide: `if random.random() < 0.5`.
    "foreign-call": (*TOLD, *MATH, *NUMPY, hoisting.read_at_the_call, *CHOICES, *COLLECTED, *own_operators.KINDS),
    "foreign-value": (*TOLD, *NUMPY, *own_operators.KINDS),
    "unsupported-attribute": (hoisting.read_at_the_call,),
    "aliased-mutation": (sharing.reader_cloned,),
}
COMPILED_AT: tuple[Kind, ...] = (recompilations.sizes_vary,)
DECIDED_AT: tuple[Kind, ...] = (recompilations.number_in_a_buffer,)
"""Of what was compiled again: where the function was given to the compiler, and where it looked at what varies."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What may mend one finding, to be tried in this order."""

    finding: Finding
    fixes: tuple[Fix, ...]


def offers(report: CompileReport, file: str, text: str) -> list[Offer]:
    """For the breaks in one file, and what was compiled again, with the text that ran. Empty where Python cannot read it."""
    try:
        source = Source(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = [finding for finding in findings(report) if finding.span is not None and same_file(finding.span.file, file)]
    compiled_at = {function.identifier: function.compiled_at for function in report.functions}
    function_at = {function.identifier: function.span for function in report.functions}
    captured = tuple(value for graph in report.graphs for value in graph.values)

    def whole(finding: Finding) -> Site:
        name = finding.function
        return Site(source, finding, ast.Constant(None), file, compiled_at.get(name), function_at.get(name), captured)

    made = [
        Offer(finding, tuple(_fixes(chain(_sites(finding, source, file), [(whole(finding), (outside.decided_outside,))]))))
        for finding in found
        if finding.kind == "break"
    ]
    made += [
        Offer(finding, tuple(_fixes(_sites_of_again(finding, source, compiled_at.get(finding.function)))))
        for finding in found
        if may_be_spared(finding)
    ]
    return [offer for offer in made if offer.fixes]


def may_be_spared(finding: Finding) -> bool:
    """Of what was compiled again. A counter of a module's is compiled for once more, as expected; who asks may have it in a buffer."""
    is_of_attribute = finding.change is not None and finding.change.cause == "attribute"
    return finding.kind == "recompile" and (not finding.is_expected or is_of_attribute)


def _fixes(sites: Iterator[tuple[Site, tuple[Kind, ...]]]) -> Iterator[Fix]:
    seen = set()
    for fix in (kind(site) for site, kinds in sites for kind in kinds):
        if fix is not None and fix.edits not in seen:
            seen.add(fix.edits)
            yield fix


def _sites(finding: Finding, source: Source, file: str) -> Iterator[tuple[Site, tuple[Kind, ...]]]:
    """The place itself, and the calls that led there: what is called may be there to tell something."""
    spans = [] if finding.span is None else [(finding.span, KINDS.get(finding.code, ()))]
    around = (*TOLD, *own_operators.KINDS) if finding.code in ("foreign-call", "foreign-value") else TOLD
    spans += [(frame.span, around) for frame in reversed(finding.stack) if same_file(frame.span.file, file)]
    for span, kinds in spans:
        node = source.expression_at(span)
        if node is not None:
            yield Site(source, finding, node), kinds


def _sites_of_again(
    finding: Finding, source: Source, compiled_at: Span | None
) -> Iterator[tuple[Site, tuple[Kind, ...]]]:
    """`torch.compile(...)` may stand in another file than the line that looked at what varies."""
    places = [(finding.span, DECIDED_AT)]
    if compiled_at is not None and finding.span is not None and same_file(compiled_at.file, finding.span.file):
        places.append((compiled_at, COMPILED_AT))
    for span, kinds in places:
        node = source.expression_at(span) or source.expression_in(span) if span is not None else None
        if node is not None:
            yield Site(source, finding, node), kinds
