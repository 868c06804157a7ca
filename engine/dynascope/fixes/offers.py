"""Which fixes there may be for what a report found: by the code of the reason, the most likely first.

offers(report, "model.py", text)  ->  [Offer(finding, (Fix("Choose with torch.where", ...), ...)), ...]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynascope.fixes import assertions, branches, conversions, indexing, numpy_twins, reporting
from dynascope.fixes.fix import Fix, Kind, Site
from dynascope.fixes.source import Source
from dynascope.report.facts import CompileReport
from dynascope.report.findings import Finding, findings
from dynascope.report.user_files import same_file

NUMPY: tuple[Kind, ...] = (numpy_twins.with_torch,)
TOLD: tuple[Kind, ...] = (reporting.told_uncompiled, reporting.told_under_condition)
KINDS: dict[str, tuple[Kind, ...]] = {
    "print-call": TOLD,
    "data-dependent-branch": (
        *TOLD,
        conversions.of_two,
        assertions.asserted_in_graph,
        branches.chosen_values,
        branches.chosen_result,
        branches.chosen_expression,
    ),
    "data-dependent-value": (
        *TOLD,
        conversions.item_dropped,
        conversions.conversion_dropped,
        conversions.int_kept,
        conversions.list_unbound,
        conversions.stacked,
        *NUMPY,
    ),
    "data-dependent-shape": (
        indexing.reduced_under_mask,
        indexing.counted,
        indexing.mask_in_place_of_places,
        indexing.written_under_mask,
    ),
    "foreign-call": (*TOLD, conversions.math_twin, *NUMPY),
    "foreign-value": (*TOLD, *NUMPY),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """What may mend one finding, to be tried in this order."""

    finding: Finding
    fixes: tuple[Fix, ...]


def offers(report: CompileReport, file: str, text: str) -> list[Offer]:
    """For the breaks in one file, whose text is what the program ran with. Empty where Python cannot read it."""
    try:
        source = Source(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = [finding for finding in findings(report) if finding.span is not None and same_file(finding.span.file, file)]
    made = [Offer(finding, tuple(_fixes(finding, source))) for finding in found if finding.kind == "break"]
    return [offer for offer in made if offer.fixes]


def _fixes(finding: Finding, source: Source) -> Iterator[Fix]:
    if finding.code not in KINDS:
        return
    seen = set()
    for fix in (kind(site) for site, kinds in _sites(finding, source) for kind in kinds):
        if fix is not None and fix.edits not in seen:
            seen.add(fix.edits)
            yield fix


def _sites(finding: Finding, source: Source) -> Iterator[tuple[Site, tuple[Kind, ...]]]:
    """The place itself, and the calls that led there: what is called may be there to tell something."""
    spans = [] if finding.span is None else [(finding.span, KINDS[finding.code])]
    file = finding.span.file if finding.span is not None else ""
    spans += [(frame.span, TOLD) for frame in reversed(finding.stack) if same_file(frame.span.file, file)]
    for span, kinds in spans:
        node = source.expression_at(span)
        if node is not None:
            yield Site(source, finding, node), kinds
