"""The documents that clients can open: their text, their URI, and which were handed out."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dynascope_server.ide.addresses import REASONS, Address, language_of, owner_of, parse_uri
from dynascope_server.ide.cells import CellName, page_with_names, text_with_names
from dynascope_server.ide.differences import differences_of_runs
from dynascope_server.ide.documents import PREVIOUS, Document, build
from dynascope_server.ide.pages import page_from_problems
from dynascope_server.interpreter import engine_folders
from dynascope_server.lsp import uris

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)

PAGE_FOLDER = "dynascope/pages"
GONE = "This document is of an earlier run. To see it again, run the program, or the command that made it.\n"


class DocumentStore:
    def __init__(self, server: DynascopeServer):
        self._server = server
        self._own: dict[Address, str] = {}
        self._handed_out: set[Address] = set()

    def put(self, address: Address, text: str) -> str:
        """Keeps a document of the server's own; returns its URI."""
        self._own[address] = text
        return self.uri_of(address)

    def uri_of(self, address: Address) -> str:
        """A URI that the client can open: `dynascope:` where it understands that, else a file written now.

        Empty where the file cannot be written; what links to it is worth showing without the link.
        """
        self._handed_out.add(address)
        if self._server.settings.client.virtualDocuments:
            return address.uri
        try:
            return uris.from_path(f"{self._server.storage.write_document(address, self.document(address).text)}")
        except OSError as error:
            logger.error("%s cannot be written: %s", address.path, error)
            return ""

    def address_of(self, uri: str) -> Address | None:
        path = uris.to_path(uri)
        return self._server.storage.address_of(path) if path else parse_uri(uri)

    def document(self, address: Address) -> Document:
        if address in self._own:
            return Document(address.what, self._own[address])
        if address.owner == REASONS:
            return Document(address.what, self._reason_page(address.what.removesuffix(".md")))
        program = self.program_of(address) or ""
        if address.what == PREVIOUS:
            return Document(address.what, self._since_the_run_before(program))
        report = self._server.session.shown_report(program)
        built = build(report, address.what, self._server.session.choice_of(program)) if report is not None else None
        if built is None:
            return Document(f"{address.what}.txt" if language_of(address.what) != "plaintext" else address.what, GONE)
        named = page_with_names if built.language == "markdown" else text_with_names
        return replace(built, text=named(built.text, self._names_in(built)))

    def _names_in(self, document: Document) -> dict[str, CellName]:
        """Of the cells that it speaks of: another notebook's kernel may have given its cells the same names."""
        files = {link.span.file for link in document.links}
        return {path: name for path, name in self._server.cell_names.items() if path in files}

    def asked_for(self, address: Address) -> Document:
        """A client that keeps its documents across sessions asks for what nobody handed out, and before results are there again."""
        self._handed_out.add(address)
        return self.document(address)

    def refresh(self, program: str) -> list[str]:
        """Documents of a program may have changed: files are rewritten; the URIs of virtual ones are returned."""
        changed = [address for address in self._handed_out if address.owner == owner_of(program)]
        return [self.uri_of(address) for address in changed]

    def _since_the_run_before(self, program: str) -> str:
        before, now = self._server.session.previous_report(program), self._server.session.report_of(program)
        return GONE if before is None or now is None else differences_of_runs(before, now)

    def program_of(self, address: Address) -> str | None:
        return next((path for path in self._server.session.programs() if owner_of(path) == address.owner), None)

    def _reason_page(self, code: str) -> str:
        for folder in self._page_folders():
            page = folder / f"{code}.md"
            if page.is_file():
                return page.read_text(encoding="utf-8", errors="replace")
        return page_from_problems(code, self._server.session.all_problems())

    def _page_folders(self) -> list[Path]:
        settings = self._server.settings
        if settings.pagesPath:
            return [Path(settings.pagesPath)]
        return [Path(engine) / PAGE_FOLDER for engine in engine_folders(settings)]
