"""The variants of a function as an editor offers them, and which one a click chooses.

offered(view, "f0")       ->  ({"entry": "f0.e1", "title": "variant 2 of 8 · pos = 5", ...}, ...)
"""

from __future__ import annotations

from typing import Any

from dynascope.report.variants import Variant, fitted_title, variants_of

from dynascope_server.ide.file_facts import FileView

LABEL_LENGTH = 80
"""Of a variant's title in a lens or a list to choose from."""


def variants_at(view: FileView, function: str) -> tuple[Variant, ...]:
    """Of the function with this identifier or name; those of its start."""
    found = next((f for f in view.report.functions if function in (f.identifier, f.name)), None)
    return () if found is None else variants_of(found, min(entry.place for entry in found.entries))


def as_offer(variant: Variant) -> dict[str, Any]:
    return {"entry": variant.entry.identifier, "title": fitted_title(variant, LABEL_LENGTH), "calls": variant.entry.calls}


def following(variants: tuple[Variant, ...], chosen: Variant | None) -> Variant:
    """The next one, round and round: what a click chooses where the editor cannot ask."""
    numbers = [variant.number for variant in variants]
    at = numbers.index(chosen.number) if chosen is not None and chosen.number in numbers else -1
    return variants[(at + 1) % len(variants)]
