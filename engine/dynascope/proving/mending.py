"""The search for fixes of a program: which offers hold alone, and which together.

mend(program, prover, texts)  ->  Mended(fixes=(ProvedFix("Choose with torch.where", ..., proof), ...), texts={...}, proof)
"""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.fixes.edits import Edit, apply, are_apart, by_lines, line_before
from dynascope.fixes.fix import Fix, Parts
from dynascope.fixes.line_lengths import fitted
from dynascope.fixes.offers import Offer, may_be_spared, offers
from dynascope.proving.asking import Outcome, Program, Prover
from dynascope.proving.kept_work import is_kept
from dynascope.proving.printed import Places, are_alike, unsteady_words
from dynascope.proving.program_files import read_program
from dynascope.report.facts import CompileReport
from dynascope.report.findings import Finding, findings
from dynascope.report.user_files import is_user_file

ROUNDS = 4
"""A break that is gone may show another one behind it."""
TRIED_BEHIND = 4
"""How many fixes of such a one are tried with the first."""
SLOWER = 5
LEAST_SECONDS = 20.0
"""An edit with which the program runs so many times as long as it does, and longer than that, is not waited for: it may never end."""
Texts = Mapping[str, str]
Count = Callable[[CompileReport], Any]
"""What is to become less."""
Chosen = tuple[str, Fix, Finding]
"""The file, what is to be edited there, and what for."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What two runs showed, before and after."""

    breaks: tuple[int, int]
    graphs: tuple[int, int]
    calls: int
    difference: float
    again: tuple[int, int] = (0, 0)
    """How often something was compiled again."""

    def words(self) -> str:
        """ "1 graph instead of 3, no break; results equal on 2 calls" """
        graphs = _of(self.graphs, "graph") if self.graphs[0] != self.graphs[1] else ""
        breaks = _of(self.breaks, "break") if self.breaks[0] != self.breaks[1] else ""
        again = _of(self.again, "recompilation") if self.again[0] > self.again[1] else ""
        if not self.calls:
            results = "the program prints the same"
        elif self.difference:
            results = f"results equal on {_counted(self.calls, 'call')} up to rounding ({self.difference:.0e})"
        else:
            results = f"results equal on {_counted(self.calls, 'call')}"
        return f"{', '.join(part for part in (graphs, breaks, again) if part)}; {results}"


@dataclass(frozen=True, slots=True)
class ProvedFix:
    """Right on its own, in the text that was given."""

    file: str
    fix: Fix
    findings: tuple[Finding, ...]
    proof: Proof


@dataclass(frozen=True, slots=True)
class Made:
    """An edit that is part of the whole: what it does, and at which line of the text that was given it was wanted."""

    file: str
    line: int
    title: str


@dataclass(frozen=True, slots=True)
class Mended:
    """`texts` are the files with all of `made` together; `left` is what still breaks then."""

    fixes: tuple[ProvedFix, ...]
    texts: dict[str, str]
    proof: Proof | None
    left: tuple[Finding, ...]
    trouble: str = ""
    made: tuple[Made, ...] = ()
    is_compiled: bool = True
    """Whether the program compiles anything."""
    is_cut: bool = False
    """The time was over before all was tried."""
    raised: str = ""
    """The error that ended the program as it is written: nothing after it was tried."""


@dataclass(frozen=True, slots=True)
class _State:
    texts: dict[str, str]
    outcome: Outcome
    made: tuple[Made, ...] = ()
    parts: tuple[tuple[str, Parts], ...] = ()

    @property
    def report(self) -> CompileReport:
        assert self.outcome.report is not None
        return self.outcome.report


class _Search:
    def __init__(self, program: Program, prover: Prover, texts: Texts, tell: Callable[[str], None], seconds: float) -> None:
        self.program, self.prover, self.given, self.tell = program, prover, texts, tell
        self._end = time.monotonic() + seconds
        self.is_cut = False
        self._witnessed: dict[tuple[str, Fix], bool] = {}
        self._unsteady: frozenset[str] = frozenset()
        """What the program leaves behind that is another value in every run: a time, an address."""
        self._unsteady_words: Places = frozenset()
        """Of what it prints the same."""

    def begin(self) -> _State | str:
        try:
            ast.parse(text_of(self.given, self.program.file), self.program.file)
        except (SyntaxError, ValueError) as error:
            return f"Python cannot read the program: {error}"
        self.prover.limit, started = self.prover.seconds, time.monotonic()
        outcome = self.prover.tried(self.program, self.given)
        taken = time.monotonic() - started
        if outcome.report is None or outcome.trouble:
            return outcome.trouble or "nothing was captured"
        if outcome.code and not _left(outcome.report):
            when = "after what it had compiled, which has no break" if outcome.report.functions else "before anything was compiled"
            return f"the program ended with code {outcome.code} {when}{f' ({outcome.raised})' * bool(outcome.raised)}"
        again = self.prover.tried(self.program, self.given, is_captured=False)
        self.prover.limit = min(self.prover.seconds, max(LEAST_SECONDS, SLOWER * taken))
        comparison = self.prover.compared(outcome, again)
        self._unsteady = frozenset(comparison["kept"])
        words = unsteady_words(outcome.printed, again.printed)
        # Where no call is compared, what is printed is all that there is.
        is_told_otherwise = words is None or (words and not comparison["calls"])
        difference = comparison["why"] or (is_told_otherwise and "it prints other words")
        self._unsteady_words = words or frozenset()
        if difference:
            return f"two runs of the program are not alike, so that results cannot be compared ({difference})"
        return _State(dict(self.given), outcome)

    def proved(self, before: _State, chosen: Sequence[Chosen], count: Count) -> tuple[Proof, _State] | None:
        """The edits made in `before`, where there is less of what is counted then and all else is as it was. Where another break shows
        in the mended one's place (`min(math.exp(x), 9)`: first the number, then the question), what mends that one is made as well."""
        found = self._alike(before, chosen)
        if found is None:
            return None
        after, comparison = found
        if count(after.report) < count(before.report):
            return _proof(before, after, comparison), after
        if len(chosen) > 1 or count(after.report) > count(before.report):
            return None
        behind = [row for row in _shown(before, after) if row[0] == chosen[0][0]]
        for file, fix, finding in behind[:TRIED_BEHIND]:
            found = self._alike(after, [(file, fix, finding)])
            if found is not None and count(found[0].report) < count(before.report):
                whole = self.prover.compared(before.outcome, found[0].outcome)
                return _proof(before, found[0], whole), found[0]
        return None

    def _alike(self, before: _State, chosen: Sequence[Chosen]) -> tuple[_State, Mapping[str, Any]] | None:
        """The edits made in `before`, where the program does all that it did, and no less of it is compiled."""
        if time.monotonic() > self._end:
            self.is_cut = True
            return None
        changed, made, taken = _joined(chosen)
        if not all(are_apart(edits) for edits in changed.values()):
            return None
        texts = {**before.texts, **{f: apply(text_of(before.texts, f), edits) for f, edits in changed.items()}}
        parts = tuple(dict.fromkeys((*before.parts, *((file, each) for file, fix in taken for each in fix.parts))))
        outcome = self.prover.tried(self.program, texts, parts=parts)
        if (
            outcome.trouble
            or outcome.report is None
            or self._does_otherwise(before.outcome, outcome)
        ):
            return None
        made = [replace(one, line=self._line_given(before, one)) for one in made]
        after = _State(texts, outcome, (*before.made, *made), parts)
        comparison = self.prover.compared(before.outcome, outcome)
        if self._is_other(comparison) or uncompiled(after.report) > uncompiled(before.report):
            return None
        if any(fix.parts for _, fix in taken) and _loses(before, after):
            return None
        is_shown = all(self._is_witnessed(before, file, fix) for file, fix, _ in chosen if fix.witness)
        return (after, comparison) if is_shown else None

    def _line_given(self, before: _State, one: Made) -> int:
        """What was edited before has moved it."""
        return line_before(text_of(self.given, one.file), text_of(before.texts, one.file), one.line)

    def _does_otherwise(self, before: Outcome, after: Outcome) -> bool:
        return before.code != after.code or not are_alike(before.printed, after.printed, self._unsteady_words)

    def _is_other(self, comparison: Mapping[str, Any]) -> bool:
        return bool(comparison["why"] or set(comparison["kept"]) - self._unsteady)

    def _is_witnessed(self, before: _State, file: str, fix: Fix) -> bool:
        """Whether a call that is compared gets to what the fix is about."""
        if (file, fix) not in self._witnessed:
            text = apply(text_of(before.texts, file), fix.witness)
            outcome = self.prover.tried(self.program, {**before.texts, file: text}, False, before.parts)
            is_otherwise = self._does_otherwise(before.outcome, outcome)
            other = is_otherwise or self._is_other(self.prover.compared(before.outcome, outcome))
            self._witnessed[file, fix] = other
        return self._witnessed[file, fix]


def mend(
    program: Program,
    prover: Prover,
    texts: Texts | None = None,
    each: bool = True,
    tell: Callable[[str], None] = lambda _: None,
    recompilations: bool = False,
    seconds: float = math.inf,
) -> Mended:
    """`texts` stand for files that are not saved yet. `each`: what holds alone is wanted, not only all together. What is compiled
    again is mended alone only, because one compilation for all sizes may be slower than two, unless `recompilations`. After `seconds`
    nothing more is tried."""
    search = _Search(program, prover, texts or {}, tell, seconds)
    first = search.begin()
    if isinstance(first, str):
        return Mended((), {}, None, (), first)
    fixes: tuple[ProvedFix, ...] = ()
    state, last = first, None
    for number in range(ROUNDS):
        wanted = _offers(state)
        if not wanted:
            break
        alone = _each(search, state, wanted) if each and number == 0 else None
        fixes = alone if alone is not None else fixes
        wanted = [row for row in wanted if recompilations or row[1].finding.kind == "break"]
        better = _together(search, state, wanted, alone, waste if recompilations else breaks) if wanted else None
        if better is None:
            break
        last, state = (state, better[0]), better[1]
    if last is not None:
        state = _without_idle(search, *last, state, waste if recompilations else breaks)
    total = search.prover.compared(first.outcome, state.outcome)
    proof = _proof(first, state, total)
    changed = {f: fitted(text_of(first.texts, f), text) for f, text in state.texts.items() if text != text_of(first.texts, f)}
    if total["why"]:
        return Mended(fixes, {}, None, _left(first.report), is_cut=search.is_cut, raised=first.outcome.raised)
    is_compiled = bool(first.report.functions)
    left = _left(state.report)
    return Mended(fixes, changed, proof if changed else None, left, "", state.made, is_compiled, search.is_cut, first.outcome.raised)


def _each(search: _Search, state: _State, wanted: list[tuple[str, Offer]]) -> tuple[ProvedFix, ...]:
    """Of each finding the first fix that holds alone; one that mends several findings is tried once."""
    known: dict[tuple[str, Fix], tuple[Proof, Fix] | None] = {}
    found: dict[tuple[str, Fix], ProvedFix] = {}
    most = len({(file, fix) for file, offer in wanted for fix in offer.fixes})
    for file, offer in wanted:
        for fix in offer.fixes:
            key = file, fix
            if key not in known:
                place = f"{Path(file).name}:{offer.finding.span.line if offer.finding.span else 0}"
                search.tell(f"{len(known) + 1} of at most {most}, {place}: {fix.title}")
                proved = search.proved(state, [(file, fix, offer.finding)], _count_of(offer.finding))
                known[key] = (proved[0], _whole(file, fix, state, proved[1])) if proved else None
            held = known[key]
            if held is not None:
                before = found.get(key)
                found[key] = (
                    ProvedFix(file, held[1], (offer.finding,), held[0])
                    if before is None
                    else replace(before, findings=(*before.findings, offer.finding))
                )
                break
    return tuple(_fitted(one, text_of(state.texts, one.file)) for one in found.values())


def _fitted(proved: ProvedFix, text: str) -> ProvedFix:
    """Its lines broken where they became too long: that changes no word that Python reads, so what was proved stays true."""
    after = apply(text, proved.fix.edits)
    broken = fitted(text, after)
    return proved if broken == after else replace(proved, fix=replace(proved.fix, edits=by_lines(text, broken)))


def _shown(before: _State, after: _State) -> list[Chosen]:
    """What may mend the breaks that were not there before."""
    known = {(finding.code, finding.message) for finding in _left(before.report)}
    wanted = [row for row in _offers(after) if (row[1].finding.code, row[1].finding.message) not in known]
    return [(file, fix, offer.finding) for file, offer in wanted if offer.finding.kind == "break" for fix in offer.fixes]


def _whole(file: str, fix: Fix, before: _State, after: _State) -> Fix:
    """One fix of all that was made, by lines, where more than the first was."""
    made = after.made[len(before.made) :]
    if len(made) < 2:
        return fix
    parts = after.parts[len(before.parts) :]
    edits = by_lines(text_of(before.texts, file), text_of(after.texts, file))
    title = "; then ".join([made[0].title, *(one.title[:1].lower() + one.title[1:] for one in made[1:])])
    return Fix(title, edits, parts=tuple(each for _, each in parts))


def _together(
    search: _Search,
    state: _State,
    wanted: list[tuple[str, Offer]],
    alone: tuple[ProvedFix, ...] | None,
    count: Count,
) -> tuple[list[Chosen], _State] | None:
    """All first choices at once, since some hold only beside others; else one after the other what holds."""
    held = {(finding, one.file): one.fix for one in alone or () for finding in one.findings}
    chosen = [(file, held.get((offer.finding, file), offer.fixes[0]), offer.finding) for file, offer in wanted]
    search.tell(f"all {len(chosen)} together" if len(chosen) > 1 else chosen[0][1].title)
    everything = search.proved(state, chosen, count)
    if everything is not None:
        return chosen, everything[1]
    kinds = {offer.finding.kind for _, offer in wanted}
    choices = (
        [(one.file, (one.fix,), one.findings[0]) for one in alone if one.findings[0].kind in kinds]
        if alone is not None
        else [(f, o.fixes, o.finding) for f, o in wanted]
    )
    kept: list[Chosen] = []
    better = None
    for file, fixes, finding in choices:
        for fix in fixes:
            is_kept = any((file, fix) == one[:2] for one in kept)
            proved = None if is_kept else search.proved(state, [*kept, (file, fix, finding)], count)
            if proved is not None and (better is None or count(proved[1].report) < count(better.report)):
                kept.append((file, fix, finding))
                better = proved[1]
                break
    return None if better is None else (kept, better)


def _without_idle(search: _Search, before: _State, chosen: list[Chosen], after: _State, count: Count) -> _State:
    """An edit that mends nothing, and behind which nothing could be mended either, is not made."""
    while len({one[1].edits for one in chosen}) > 1 and breaks(before.report) - breaks(after.report) < len(chosen):
        for one in chosen:
            others = [each for each in chosen if each[1] != one[1]]
            proved = search.proved(before, others, count) if others else None
            if proved is not None and count(proved[1].report) <= count(after.report):
                chosen, after = others, proved[1]
                break
        else:
            break
    return after


def _joined(chosen: Sequence[Chosen]) -> tuple[dict[str, tuple[Edit, ...]], list[Made], list[tuple[str, Fix]]]:
    """By file; a fix whose edits are in the way of an earlier one waits for the next round."""
    joined: dict[str, tuple[Edit, ...]] = {}
    made: dict[tuple[str, Fix], Made] = {}
    for file, fix, finding in chosen:
        edits = (*joined.get(file, ()), *fix.edits)
        if are_apart(edits):
            joined[file] = edits
            made.setdefault((file, fix), Made(file, finding.span.line if finding.span else 0, fix.title))
    return joined, list(made.values()), list(made)


def _offers(state: _State) -> list[tuple[str, Offer]]:
    spans = [finding.span for finding in findings(state.report) if finding.span is not None]
    files = dict.fromkeys(span.file for span in spans if is_user_file(span.file))
    return [(file, offer) for file in files for offer in offers(state.report, file, text_of(state.texts, file))]


def text_of(texts: Texts, file: str) -> str:
    return texts[file] if file in texts else read_program(file)


def breaks(report: CompileReport) -> int:
    return len(_left(report))


def compiled_again(report: CompileReport) -> int:
    return sum(finding.times for finding in findings(report) if may_be_spared(finding))


def waste(report: CompileReport) -> tuple[int, int]:
    """Breaks weigh more than what is compiled again."""
    return breaks(report), compiled_again(report)


def _loses(before: _State, after: _State) -> bool:
    """Work that is compiled in parts is worth it where it all stays compiled, in no more graphs than the breaks made."""
    is_more = len(after.report.graphs) > len(before.report.graphs) or compiled_again(after.report) > compiled_again(before.report)
    ran = [(state.report, partial(text_of, state.texts)) for state in (before, after)]
    return is_more or not is_kept(*ran)


def _count_of(finding: Finding) -> Count:
    return waste if finding.kind == "recompile" else breaks


def _proof(before: _State, after: _State, comparison: Mapping[str, Any]) -> Proof:
    return Proof(
        (breaks(before.report), breaks(after.report)),
        (len(before.report.graphs), len(after.report.graphs)),
        comparison["calls"],
        comparison["difference"],
        (compiled_again(before.report), compiled_again(after.report)),
    )


def uncompiled(report: CompileReport) -> int:
    return sum(
        finding.kind == "uncompiled" and finding.severity in ("error", "warning") for finding in findings(report)
    )


def _left(report: CompileReport) -> tuple[Finding, ...]:
    return tuple(f for f in findings(report) if f.kind == "break" and f.severity in ("error", "warning"))


def _of(numbers: tuple[int, int], noun: str) -> str:
    before, after = numbers
    return f"{_counted(after, noun) if after else f'no {noun}'} instead of {before}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
