"""Facts as lsprotocol objects: the only module that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from lsprotocol import types

from dynascope_server.ide.actions import Action
from dynascope_server.ide.acts import FILE_COMMANDS, Act
from dynascope_server.ide.fixes import Offer, TextEdit
from dynascope_server.ide.hints import Hint
from dynascope_server.ide.lenses import Lens
from dynascope_server.ide.problems import Problem
from dynascope_server.lsp.positions import Area, column_of_bytes

SOURCE = "dynascope"
SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}
MESSAGE_TYPES = {
    "error": types.MessageType.Error,
    "warning": types.MessageType.Warning,
    "information": types.MessageType.Info,
    "log": types.MessageType.Log,
}
ACTION_KIND = "dynascope.show"
FILE_ACTION_KIND = f"{types.CodeActionKind.Source.value}.dynascope"
"""What concerns the file is offered everywhere in it; editors show a light bulb for other kinds on every line."""
FIX_ALL_KIND = f"{types.CodeActionKind.SourceFixAll.value}.dynascope"


class Client(Protocol):
    """What an edit needs to know of who makes it."""

    @property
    def encoding(self) -> str: ...

    def uri_of(self, path: str) -> str: ...


def range_of(area: Area) -> types.Range:
    return types.Range(types.Position(area.line, area.column), types.Position(area.end_line, area.end_column))


def command(act: Act, uri: str | None) -> types.Command:
    subject: list[Any] = [act.subject] if act.subject is not None else [uri] if uri is not None else []
    arguments = [*subject, dict(act.detail)] if act.detail else subject
    return types.Command(act.title, act.command, arguments=arguments)


def lens(found: Lens, uri: str | None) -> types.CodeLens:
    start = types.Position(found.line - 1, 0)
    return types.CodeLens(types.Range(start, start), command(found.act, uri))


def hover(markdown: str, area: Area) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, markdown), range_of(area))


def hint(found: Hint, area: Area) -> types.InlayHint:
    position = types.Position(area.end_line, area.end_column)
    return types.InlayHint(position, found.label, tooltip=found.tooltip, padding_left=True)


def action(found: Action, uri: str | None, diagnostics: Sequence[types.Diagnostic]) -> types.CodeAction:
    """Belongs to those of the client's diagnostics that carry its problem's code."""
    code = found.problem.code if found.problem is not None else None
    own = [diagnostic for diagnostic in diagnostics if diagnostic.source == SOURCE and diagnostic.code == code]
    kind = types.CodeActionKind.QuickFix if found.problem is not None else _kind(found.act)
    return types.CodeAction(found.act.title, kind, own or None, command=command(found.act, uri))


def fix(
    offer: Offer, texts: Mapping[str, str], client: Client, diagnostics: Sequence[types.Diagnostic]
) -> types.CodeAction:
    """An edit, with the diagnostics that it mends; one for all of the file where it has no codes."""
    own = [diagnostic for diagnostic in diagnostics if diagnostic.source == SOURCE and diagnostic.code in offer.codes]
    changes = {
        client.uri_of(file): [_text_edit(edit, texts[file].split("\n"), client.encoding) for edit in edits]
        for file, edits in offer.edits.items()
    }
    kind = types.CodeActionKind.QuickFix if offer.codes else FIX_ALL_KIND
    edit = types.WorkspaceEdit(changes=changes)
    return types.CodeAction(offer.title, kind, own or None, is_preferred=True if own else None, edit=edit)


def _text_edit(edit: TextEdit, lines: Sequence[str], encoding: str) -> types.TextEdit:
    """Its columns are bytes, also where it is empty or ends where a line begins."""
    span = edit.span
    ends = ((span.line, span.column), (span.last_line, span.end_column))
    places = [
        types.Position(row - 1, column_of_bytes(lines[row - 1] if row <= len(lines) else "", column or 0, encoding))
        for row, column in ends
    ]
    return types.TextEdit(types.Range(places[0], places[1]), edit.text)


def _kind(act: Act) -> str:
    return FILE_ACTION_KIND if act.command in FILE_COMMANDS and not act.detail else ACTION_KIND


def related(area: Area, uri: str, message: str) -> types.DiagnosticRelatedInformation:
    return types.DiagnosticRelatedInformation(types.Location(uri, range_of(area)), message)


def diagnostic(
    problem: Problem, area: Area, href: str, stale: bool, places: Sequence[types.DiagnosticRelatedInformation]
) -> types.Diagnostic:
    return types.Diagnostic(
        range=range_of(area),
        message=f"(stale) {problem.message}" if stale else problem.message,
        severity=types.DiagnosticSeverity.Hint if stale else SEVERITIES[problem.severity],
        code=problem.code,
        code_description=types.CodeDescription(href) if href else None,
        source=SOURCE,
        related_information=list(places) or None,
        data={"stale": stale},
    )


def publication(uri: str, diagnostics: Iterable[types.Diagnostic]) -> types.PublishDiagnosticsParams:
    return types.PublishDiagnosticsParams(uri, list(diagnostics))


def document_link(area: Area, target: str, tooltip: str) -> types.DocumentLink:
    return types.DocumentLink(range_of(area), target, tooltip)


def message(kind: str, text: str) -> types.ShowMessageParams:
    return types.ShowMessageParams(MESSAGE_TYPES[kind], text)


def log_message(kind: str, text: str) -> types.LogMessageParams:
    return types.LogMessageParams(MESSAGE_TYPES[kind], text)


def show_document(uri: str, line: int | None) -> types.ShowDocumentParams:
    """`line` from 1."""
    start = types.Position(line - 1, 0) if line else None
    selection = types.Range(start, start) if start else None
    return types.ShowDocumentParams(uri, take_focus=True, selection=selection)


def progress_begin(title: str, text: str) -> types.WorkDoneProgressBegin:
    return types.WorkDoneProgressBegin(title, cancellable=True, message=text)


def progress_report(text: str) -> types.WorkDoneProgressReport:
    return types.WorkDoneProgressReport(message=text, cancellable=True)


def progress_end(text: str) -> types.WorkDoneProgressEnd:
    return types.WorkDoneProgressEnd(message=text)
