"""Labels of several parts in little room: as many whole parts as fit, those that set labels apart before those that do not.

whole_parts("gradients off · x f32[s0, 3] · y f32[s0]", 32)                   ->  "gradients off · x f32[s0, 3] · ..."
fitted_labels(["training = True · x f32[2]", "training = True · x f32[3]"], 18)  ->  ["x f32[2] · ...", "x f32[3] · ..."]
"""

from __future__ import annotations

import itertools
import os
import textwrap
from collections import Counter
from collections.abc import Sequence

SEPARATOR = " · "


def fitted_labels(labels: Sequence[str], width: int) -> list[str]:
    """Labels in so much room, each other than the others as long as they are: first goes what all have in common, then parts at the
    end, and of a single long part the beginning that says the same in all."""
    if all(len(label) <= width for label in labels):
        return list(labels)
    rows = [label.split(SEPARATOR) for label in labels]
    if len(set(map(len, rows))) == 1:
        own = [SEPARATOR.join(row) for row in zip(*_by_what_they_tell(list(zip(*rows, strict=True))), strict=True)]
    else:
        counted = Counter(part for row in rows for part in row)
        own = [SEPARATOR.join(sorted(row, key=counted.__getitem__)) for row in rows]
    shown = [whole_parts(label, width) for label in own]
    if len(set(shown)) == len(set(labels)) and all(not _is_cut_inside(one, label) for one, label in zip(shown, own, strict=True)):
        return shown
    prefix = os.path.commonprefix(own).rstrip()
    start = max(map(prefix.rfind, ".[ "))
    return [_cut(f"…{label[start:].lstrip()}" if start > 1 else label, width) for label in own]


def _by_what_they_tell(columns: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The parts of all labels, first those that set most labels apart, each beside those before it."""
    left, chosen = list(columns), []
    while left:
        chosen.append(max(left, key=lambda column: len(set(zip(*chosen, column, strict=True)))))
        left.remove(chosen[-1])
    return chosen


def _is_cut_inside(shown: str, label: str) -> bool:
    return shown != label and not shown.endswith(f"{SEPARATOR}...")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def whole_parts(text: str, width: int) -> str:
    """As many of the parts as there is room for, each whole: half of one (`training = ...`) says nothing."""
    parts, room = text.split(SEPARATOR), width - len(f"{SEPARATOR}...")
    kept = list(itertools.takewhile(lambda many: len(SEPARATOR.join(parts[:many])) <= room, range(1, len(parts))))
    if len(text) <= width:
        return text
    return SEPARATOR.join((*parts[: kept[-1]], "...")) if kept else textwrap.shorten(text, width, placeholder=" ...")
