"""Diagnostics to the client: for every file that some result speaks of, and emptied where none does any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dynascope.report.user_files import is_user_file
from lsprotocol import types

from dynascope_server.ide.addresses import reason_address
from dynascope_server.ide.cells import is_cell, without_magics
from dynascope_server.ide.problems import Problem
from dynascope_server.ide.syntax_marks import marks
from dynascope_server.ide.text_lines import text_lines
from dynascope_server.lsp import convert
from dynascope_server.lsp.positions import area_of_span

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


class Publisher:
    def __init__(self, server: DynascopeServer):
        self._server = server
        self._published: dict[str, list[types.Diagnostic]] = {}

    def publish_all(self) -> None:
        self.publish(self._server.session.files() | self._published.keys())

    def publish(self, paths: Iterable[str]) -> None:
        """Sends what changed, no more."""
        for path in sorted(paths):
            diagnostics = [self._diagnostic(path, problem, stale) for problem, stale in self._problems(path)]
            if diagnostics != self._published.get(path, []):
                uri = self._server.uri_of(path)
                self._server.text_document_publish_diagnostics(convert.publication(uri, diagnostics))
            self._published[path] = diagnostics

    def _problems(self, path: str) -> list[tuple[Problem, bool]]:
        """What a run found; of an open file that no run speaks of yet, what the syntax says."""
        server = self._server
        if server.session.program_of(path) is not None:
            return list(server.session.problems(path))
        if not server.is_open(path) or not is_user_file(path):
            return []
        text = server.text_of(path)
        found = marks(path, without_magics(text) if is_cell(path) else text)
        return [(Problem(mark.span, "information", mark.code, mark.message), False) for mark in found]

    def _diagnostic(self, path: str, problem: Problem, stale: bool) -> types.Diagnostic:
        server = self._server
        encoding = server.encoding
        area = area_of_span(problem.span, text_lines(server.text_of(path)), encoding)
        places = [
            convert.related(
                area_of_span(place.span, text_lines(server.text_of(place.span.file)), encoding),
                server.uri_of(place.span.file),
                place.message,
            )
            for place in problem.related
            if server.uri_of(place.span.file)
        ]
        href = server.documents.uri_of(reason_address(problem.code))
        return convert.diagnostic(problem, area, href, stale, places)
