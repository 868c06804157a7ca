"""What is known: the results of each program that was run, and how they lie on the files as they are now.

A result remembers the text of every file it speaks of as it was when the program ran; the present text comes from the
editor, or from the disk where a file is not open. The newest result that speaks of a file is the one shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from dynascope.report.facts import CompileReport
from dynascope.report.reason import Explanation
from dynascope.report.span import Span

from dynascope_server.ide.file_facts import FileFacts, FileView, by_file, empty_facts
from dynascope_server.ide.line_map import LineMap, line_map
from dynascope_server.ide.problems import Problem, Related, problem_of
from dynascope_server.ide.user_files import is_user_file

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


class Session:
    def __init__(self, on_disk: ReadText, in_editor: ReadText):
        """`in_editor` gives the text on disk for files that are not open."""
        self._on_disk = on_disk
        self._in_editor = in_editor
        self._results: dict[str, Result] = {}
        self._maps: dict[str, tuple[str, str, LineMap]] = {}

    def begin(self, program: str) -> None:
        """A run starts: what was known stays until its first report."""
        result = self._results.pop(program, None) or Result(program)
        self._results[program] = result
        result.failures = ()
        result.next_texts = {program: self._on_disk(program)}

    def accept(self, program: str, report: CompileReport) -> None:
        """A report of the run now going on, or just over."""
        result = self._results.setdefault(program, Result(program))
        facts = by_file(report)
        if result.next_texts:
            result.texts, result.next_texts = result.next_texts, {}
        result.pointing = _pointing(facts)
        for path in (facts.keys() | result.pointing.keys()) - result.texts.keys():
            result.texts[path] = self._on_disk(path)
        result.report, result.facts, result.outdated = report, facts, False

    def fail(self, program: str, failure: Explanation) -> None:
        """The run had trouble of its own; a report of an earlier run is kept, but is no longer of the newest run."""
        result = self._results.setdefault(program, Result(program))
        result.failures = (*result.failures, failure)
        result.outdated = bool(result.next_texts) and result.report is not None

    def clear(self, program: str | None) -> None:
        """Forgets every result that speaks of the file, or all."""
        names = list(self._results) if program is None else [r.program for r in self._speaking_of(program)]
        for name in names:
            del self._results[name]

    def report_of(self, program: str) -> CompileReport | None:
        result = self._results.get(program)
        return result.report if result else None

    def programs(self) -> tuple[str, ...]:
        """The programs that were run, the newest last."""
        return tuple(self._results)

    def files(self) -> set[str]:
        """Every file that some result speaks of."""
        return {path for result in self._results.values() for path in (result.program, *result.facts)}

    def touched_by(self, path: str) -> set[str]:
        """The files whose problems change with the text of `path`."""
        pointing = (result.pointing.get(path, ()) for result in self._results.values())
        return set().union({path} & self.files(), *pointing)

    def view(self, path: str) -> FileView | None:
        """What the newest result that speaks of the file says about it, on its present lines."""
        result = self._newest(path)
        if result is None:
            return None
        facts = result.facts.get(path) or empty_facts(path)
        return FileView(path, result.report, facts, self._lines(path, result), result.program, result.outdated)

    def problems(self, path: str) -> Iterator[tuple[Problem, bool]]:
        """The problems of a file that still have their line, each at its present place, and whether it is stale."""
        failures = list(self._failures(path))
        for failure in failures:
            yield failure, False
        # A failed run's report may tell of its failure as well.
        told = {(failure.code, failure.message) for failure in failures}
        view, result = self.view(path), self._newest(path)
        for problem in view.facts.problems if view is not None else ():
            span = view.lines.span(problem.span)
            if span is not None and (problem.code, problem.message) not in told:
                yield replace(problem, span=span, related=tuple(self._present(problem.related, result))), view.stale

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
        old, new = result.texts.get(path), self._in_editor(path)
        if old is None:
            return LineMap()
        known = self._maps.get(path)
        if known is None or known[0] is not old or known[1] != new:
            known = self._maps[path] = (old, new, line_map(old, new))
        return known[2]


def _pointing(facts: dict[str, FileFacts]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path, about in facts.items():
        for file in {place.span.file for problem in about.problems for place in problem.related}:
            if is_user_file(file):
                found.setdefault(file, set()).add(path)
    return found
