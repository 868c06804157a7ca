"""What is known: the results of each program that was run, and how they lie on the files as they are now.

A result remembers the text of every file it speaks of as it was when the program ran; the present text comes from the
editor, or from the disk where a file is not open. The newest result that speaks of a file is the one shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dynascope.report.facts import CompileReport, FunctionFact
from dynascope.report.reason import Explanation
from dynascope.report.span import Span
from dynascope.report.user_files import is_user_file
from dynascope.report.variants import Variant, variants_of

from dynascope_server.ide.edits import changed_lines
from dynascope_server.ide.file_facts import FileFacts, FileView, by_file, empty_facts
from dynascope_server.ide.line_map import LineMap, line_map
from dynascope_server.ide.live import NOT_KNOWN, LiveReport
from dynascope_server.ide.problems import Problem, Related, problem_of
from dynascope_server.ide.units import lines_of

ReadText = Callable[[str], str]


@dataclass(slots=True)
class Result:
    """One program's results: the report with the texts it speaks of, and what went wrong around the report."""

    program: str
    report: CompileReport | None = None
    facts: dict[str, FileFacts] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    pointing: dict[str, set[str]] = field(default_factory=dict)
    """Of each file: the files whose problems name a place in it, as a call of an inlined function does."""
    next_texts: dict[str, str] = field(default_factory=dict)
    """Texts at the start of a run whose first report is still to come."""
    failures: tuple[Explanation, ...] = ()
    outdated: bool = False
    chosen: dict[tuple[str, int], str] = field(default_factory=dict)
    """By function and place, what sets the variant apart that the person wants to see; kept from run to run."""
    choice: frozenset[str] = frozenset()
    """The same as entries of this report."""
    live: Live | None = None
    """What is shown in place of all this while the text is edited."""
    previous: CompileReport | None = None
    """Of the run before."""

    @property
    def shown(self) -> Result | Live:
        return self.live or self


@dataclass(slots=True)
class Live:
    """The same with edited functions captured again, for the texts as they were then."""

    report: CompileReport
    facts: dict[str, FileFacts]
    texts: dict[str, str]
    pointing: dict[str, set[str]]
    functions: frozenset[str]
    """Those that were captured again."""
    stale: frozenset[str]
    choice: frozenset[str]


@dataclass(frozen=True, slots=True)
class Edited:
    """What was edited since a program ran: by file the lines, and the functions that mean something else now."""

    report: CompileReport
    texts: dict[str, tuple[str, str]]
    maps: dict[str, LineMap]
    functions: frozenset[str]


class Session:
    def __init__(self, on_disk: ReadText, in_editor: ReadText):
        """`in_editor` gives the text on disk for files that are not open."""
        self._on_disk = on_disk
        self._in_editor = in_editor
        self._results: dict[str, Result] = {}
        self._maps: dict[str, tuple[str, str, LineMap, frozenset[int]]] = {}

    def begin(self, program: str) -> None:
        """A run starts: what was known stays until its first report."""
        result = self._results.pop(program, None) or Result(program)
        self._results[program] = result
        result.failures = ()
        if not result.outdated:
            result.previous = result.report
        result.next_texts = {program: self._on_disk(program)}

    def accept(self, program: str, report: CompileReport) -> None:
        """A report of the run now going on, or just over."""
        result = self._results.setdefault(program, Result(program))
        result.choice = _resolved(result.chosen, report)
        facts = by_file(report, result.choice)
        if result.next_texts:
            result.texts, result.next_texts = result.next_texts, {}
        result.pointing = _pointing(facts)
        for path in (facts.keys() | result.pointing.keys()) - result.texts.keys():
            result.texts[path] = self._on_disk(path)
        result.report, result.facts, result.outdated, result.live = report, facts, False, None

    def edited(self, program: str) -> Edited | None:
        """None where there is no result, or its texts are as they were."""
        result = self._results.get(program)
        if result is None or result.report is None or result.outdated:
            return None
        texts = {path: (old, self._in_editor(path)) for path, old in result.texts.items()}
        maps = {path: line_map(old, new) for path, (old, new) in texts.items() if old != new}
        if not maps:
            return None
        stale = _stale(result.report, {path: changed_lines(*texts[path], maps[path]) for path in maps})
        return Edited(result.report, {path: texts[path] for path in maps}, maps, stale)

    def show_live(self, program: str, edited: Edited, found: LiveReport | None) -> bool:
        """What was found out about edited functions, or that there is nothing to say; whether that changes anything."""
        result = self._results.get(program)
        if result is None or result.report is not edited.report:
            return False
        had, result.live = result.live, None
        if found is None:
            return had is not None
        choice = _resolved(result.chosen, found.report)
        facts = by_file(found.report, choice)
        texts = {**result.texts, **{path: new for path, (_, new) in edited.texts.items()}}
        for path in facts.keys() - texts.keys():
            texts[path] = self._on_disk(path)
        result.live = Live(found.report, facts, texts, _pointing(facts), found.functions, found.stale, choice)
        return True

    def is_live(self, program: str) -> bool:
        """Whether what is shown is known of the text as edited."""
        result = self._results.get(program)
        return result is not None and result.live is not None

    def forget_live(self, program: str) -> bool:
        result = self._results.get(program)
        had = result is not None and result.live is not None
        if result is not None:
            result.live = None
        return had

    def texts_of(self, program: str) -> dict[str, str]:
        """Of the files that the program's result speaks of, as they were when it ran."""
        result = self._results.get(program)
        return dict(result.texts) if result else {}

    def restore(self, program: str, report: CompileReport, texts: dict[str, str]) -> None:
        """A result of an earlier session. What is known already is newer."""
        if program not in self._results:
            others, self._results = self._results, {program: Result(program, texts=dict(texts))}
            self._results.update(others)
            self.accept(program, report)

    def take(self, program: str, report: CompileReport, texts: dict[str, str]) -> None:
        """A result of what was run elsewhere, with the texts that ran: the newest one of its program."""
        before = self._results.pop(program, None)
        result = Result(program, texts=dict(texts))
        if before is not None:
            result.previous, result.chosen = before.report, before.chosen
        self._results[program] = result
        self.accept(program, report)

    def choose(self, program: str, function: FunctionFact, variant: Variant) -> None:
        """From now on this variant is shown, also after the next run if it has one that is set apart in the same way."""
        result = self._results[program]
        if result.report is None:
            return
        result.chosen[function.name, variant.entry.place] = variant.label
        result.choice = _resolved(result.chosen, result.report)
        result.facts = by_file(result.report, result.choice)
        if result.live is not None:
            result.live.choice = _resolved(result.chosen, result.live.report)
            result.live.facts = by_file(result.live.report, result.live.choice)

    def choice_of(self, program: str) -> frozenset[str]:
        result = self._results.get(program)
        return result.shown.choice if result else frozenset()

    def fail(self, program: str, failure: Explanation) -> None:
        """The run had trouble of its own; a report of an earlier run is kept, but is no longer of the newest run."""
        result = self._results.setdefault(program, Result(program))
        result.failures = (*result.failures, failure)
        result.outdated = bool(result.next_texts) and result.report is not None

    def clear(self, program: str | None) -> list[str]:
        """Forgets every result that speaks of the file, or all; the programs whose results they were."""
        names = list(self._results) if program is None else [r.program for r in self._speaking_of(program)]
        for name in names:
            del self._results[name]
        return names

    def report_of(self, program: str) -> CompileReport | None:
        result = self._results.get(program)
        return result.report if result else None

    def previous_report(self, program: str) -> CompileReport | None:
        """Of the run before the newest one."""
        result = self._results.get(program)
        return result.previous if result else None

    def shown_report(self, program: str) -> CompileReport | None:
        """That of the run, or what is known of its text as edited since."""
        result = self._results.get(program)
        return result.shown.report if result else None

    def programs(self) -> tuple[str, ...]:
        """The programs that were run, the newest last."""
        return tuple(self._results)

    def files(self) -> set[str]:
        """Every file that some result speaks of."""
        return {
            path for result in self._results.values() for path in (result.program, *result.facts, *result.shown.facts)
        }

    def touched_by(self, path: str) -> set[str]:
        """The files whose problems change with the text of `path`."""
        pointing = (result.shown.pointing.get(path, ()) for result in self._results.values())
        return set().union({path} & self.files(), *pointing)

    def program_of(self, path: str) -> str | None:
        """The program whose newest run speaks of the file, also where that run gave no report."""
        result = self._newest(path)
        return result.program if result is not None else None

    def view(self, path: str) -> FileView | None:
        """What the newest report that speaks of the file says about it, on its present lines."""
        result = self._newest(path)
        if result is None or result.report is None:
            return None
        shown = result.shown
        facts = shown.facts.get(path) or empty_facts(path)
        stale = self._stale_functions(result)
        live = result.live.functions - stale if result.live else frozenset()
        lines = self._lines(path, result)
        assert shown.report is not None
        return FileView(path, shown.report, facts, lines, result.program, result.outdated, stale, shown.choice, live)

    def problems(self, path: str) -> Iterator[tuple[Problem, bool]]:
        """The problems of a file that still have their line, each at its present place, and whether it is stale."""
        failures = list(self._failures(path))
        for failure in failures:
            yield failure, False
        # A failed run's report may tell of its failure as well.
        told = {(failure.code, failure.message) for failure in failures}
        view, result = self.view(path), self._newest(path)
        if view is None or result is None:
            return
        for problem in view.facts.problems:
            span = view.lines.span(problem.span)
            if span is not None and (problem.code, problem.message) not in told:
                stale = view.is_stale(problem.function) if problem.function else view.stale
                # What only a run can say is said of the text as it is now.
                stale = stale and problem.code != NOT_KNOWN
                yield replace(problem, span=span, related=tuple(self._present(problem.related, result))), stale

    def _present(self, related: tuple[Related, ...], result: Result) -> Iterator[Related]:
        """The places that still have their lines, where they are now."""
        for place in related:
            span = self._lines(place.span.file, result).span(place.span)
            if span is not None:
                yield replace(place, span=span)

    def all_problems(self) -> Iterator[Problem]:
        for path in self.files():
            yield from (problem for problem, _ in self.problems(path))

    def _failures(self, path: str) -> Iterator[Problem]:
        result = self._results.get(path)
        for failure in result.failures if result else ():
            problem = problem_of(failure, Span(path, 1))
            yield problem if problem.span.file == path else replace(problem, span=Span(path, 1))

    def _newest(self, path: str) -> Result | None:
        return next(self._speaking_of(path), None)

    def _speaking_of(self, path: str) -> Iterator[Result]:
        return (r for r in reversed(list(self._results.values())) if path == r.program or path in r.facts)

    def _lines(self, path: str, result: Result) -> LineMap:
        return self._edits(path, result)[0]

    def _edits(self, path: str, result: Result) -> tuple[LineMap, frozenset[int]]:
        """Where the lines are now, and which of the old ones mean something else."""
        old = result.shown.texts.get(path)
        if old is None:
            return LineMap(), frozenset()
        new = self._in_editor(path)
        known = self._maps.get(path)
        if known is None or known[0] is not old or known[1] != new:
            lines = line_map(old, new)
            known = self._maps[path] = (old, new, lines, changed_lines(old, new, lines))
        return known[2], known[3]

    def _stale_functions(self, result: Result) -> frozenset[str]:
        """Those whose text, or that of a function inlined into them, is another than when the program ran."""
        shown = result.shown
        if shown.report is None:
            return frozenset()
        before = result.live.stale if result.live else frozenset()
        return before | _stale(shown.report, {path: self._edits(path, result)[1] for path in shown.texts})


def _stale(report: CompileReport, lines: Mapping[str, Collection[int]]) -> frozenset[str]:
    changed = {(path, line) for path, found in lines.items() for line in found}
    if not changed:
        return frozenset()
    return frozenset(f.identifier for f in report.functions if not changed.isdisjoint(lines_of(f)))


def _resolved(chosen: dict[tuple[str, int], str], report: CompileReport) -> frozenset[str]:
    return frozenset(
        variant.entry.identifier
        for function in report.functions
        for (name, place), label in chosen.items()
        if name == function.name
        for variant in variants_of(function, place)
        if variant.label == label
    )


def _pointing(facts: dict[str, FileFacts]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path, about in facts.items():
        for file in {place.span.file for problem in about.problems for place in problem.related}:
            if is_user_file(file):
                found.setdefault(file, set()).add(path)
    return found
