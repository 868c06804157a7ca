"""Fixes that `dynascope fix --json` proved, as edits of the text that they were proved for.

found = read_fixes(json)
offers_at(found, "model.py", present_text, 12, 12)  ->  [Offer("Choose with torch.where (1 graph instead of 3; ...)", ...)]
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dynascope.report.json_format import from_json
from dynascope.report.span import Span


@dataclass(frozen=True, slots=True)
class TextEdit:
    """`span` is what is replaced; an empty one is where something is put in."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    file: str
    title: str
    codes: tuple[str, ...]
    spans: tuple[Span, ...]
    edits: tuple[TextEdit, ...]
    words: str
    """What was proved."""


@dataclass(frozen=True, slots=True)
class Fixes:
    """`before` has the texts that all of this is about, `after` those with every fix that holds beside the others."""

    fixes: tuple[Fix, ...] = ()
    before: Mapping[str, str] | None = None
    after: Mapping[str, str] | None = None
    words: str = ""
    left: int = 0
    trouble: str = ""
    is_cut: bool = False
    """The time was over before all was tried."""


@dataclass(frozen=True, slots=True)
class Offer:
    """`codes` are those of the diagnostics that it mends; empty for all of the file at once."""

    title: str
    edits: Mapping[str, tuple[TextEdit, ...]]
    codes: tuple[str, ...] = ()


def read_fixes(data: Mapping[str, Any]) -> Fixes:
    """Raises `ValueError`, `KeyError` or `TypeError` for what `dynascope fix --json` does not write."""
    together = data["all"] or {}
    return Fixes(
        tuple(map(_read_fix, data["fixes"])),
        data["before"],
        together.get("texts", {}),
        together.get("words", ""),
        data["left"],
        data["trouble"],
        data.get("cut", False),
    )


def offers_at(found: Fixes, path: str, text_of: Callable[[str], str], first: int, last: int) -> Iterator[Offer]:
    """For the present lines `first` to `last`, from 1. None where the text is another than the one they were proved for."""
    before = found.before or {}
    if before.get(path) != text_of(path):
        return
    here = [
        fix
        for fix in found.fixes
        if fix.file == path and any(span.line <= last and first <= span.last_line for span in fix.spans)
    ]
    for fix in here:
        yield Offer(f"{fix.title} (proved: {fix.words})", {path: fix.edits}, fix.codes)
    after = found.after or {}
    if path in after and all(before.get(file) == text_of(file) for file in after):
        edits = {file: tuple(line_edits(file, before[file], text)) for file, text in after.items()}
        title = f"Fix all breaks that can be fixed (proved: {found.words})"
        if here and len(found.fixes) > 1:
            yield Offer(title, edits, tuple(dict.fromkeys(code for fix in found.fixes for code in fix.codes)))
        yield Offer(title, edits)


def line_edits(file: str, before: str, after: str) -> Iterator[TextEdit]:
    """What turns one text into the other, by whole lines."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield TextEdit(Span(file, first + 1, 0, last + 1, 0), "".join(new[start:end]))


def told(found: Fixes) -> str:
    """One sentence about what came of the search."""
    if found.trouble:
        return f"No fix can be proved: {found.trouble}."
    cut = " The time was over before every edit was tried: there may be more." if found.is_cut else ""
    if not found.fixes and not found.after:
        return f"No fix was proved.{cut}" if found.left else "There is no break to fix."
    rest = (
        f" {found.left} more breaks have none." if found.left > 1 else " One more break has none." if found.left else ""
    )
    return f"Fixes were proved: {found.words or found.fixes[0].words}.{rest}{cut} The light bulb on its line makes the edit."


def _read_fix(data: Mapping[str, Any]) -> Fix:
    file = data["file"]
    edits = (
        TextEdit(Span(file, each["line"], each["column"], each["end_line"], each["end_column"]), each["text"])
        for each in data["edits"]
    )
    spans = tuple(from_json(Span, span) for span in data["spans"] if span is not None)
    return Fix(file, data["title"], tuple(data["codes"]), spans, tuple(edits), data["words"])
