"""Cells of notebooks: documents of their own, whose paths are the notebook's with the cell's name behind it.

is_cell("/home/me/train.ipynb#W0sZmlsZQ==")     True
cells_of({"cell_3.py": ..., "/tmp/5.py": "def g(): ..."}, "cell_3.py", here, {}, {there: "def g(): ..."})
    ->  {"cell_3.py": here, "/tmp/5.py": there}
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

CELL = re.compile(r"\.ipynb#[^/]*$")
NUMBER = re.compile(r"(?:^|\D)(\d{1,6})\.py$")
FIRST_GROUP = r"\1"
MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CellName:
    """`called` as people call the cell, `file` as the kernel calls it, without the folder."""

    called: str
    file: str

    def place(self, line: int | str) -> str:
        return f"{self.called}, line {line}"


def is_cell(path: str) -> bool:
    return CELL.search(path) is not None


def without_magics(text: str) -> str:
    """What IPython itself reads (`%load_ext`, `!pip`) is no Python; lines stay where they are."""
    return MAGIC.sub("", text)


def cell_name(file: str, path: str) -> CellName:
    """As a person calls the cell that the kernel names `cell_3.py` or `/tmp/ipykernel_1/2.py`: by its number, which stands beside it. Some
    kernels name a cell by a number of ten digits, which says nothing: then it is one of the notebook."""
    number = NUMBER.search(file)
    called = f"cell {number[1]}" if number else f"a cell of {os.path.basename(path.partition('#')[0])}"
    return CellName(called, os.path.basename(file))


def page_with_names(page: str, names: Mapping[str, CellName]) -> str:
    """A page in prose, where cells have the names of their documents, with their own."""
    for path, name in names.items():
        address = re.escape(os.path.basename(path))
        page = re.sub(rf"^# {address}$", f"# {name.called.capitalize()}", page, flags=re.MULTILINE)
        page = re.sub(rf"\[{address}:(\d+)\]\(", rf"[{name.place(FIRST_GROUP)}](", page)
    return page


def text_with_names(text: str, names: Mapping[str, CellName]) -> str:
    """A generated text, which was written with the kernel's names for cells (`// 1795961393.py:9`), with those that people have."""
    known = {name.file: name for name in names.values()}
    if not known:
        return text
    files = "|".join(re.escape(file) for file in sorted(known, key=len, reverse=True))
    return re.sub(rf"(?<!\w)({files}):(\d+)", lambda found: known[found[1]].place(found[2]), text)


def cells_of(
    ran: Mapping[str, str], program: str, here: str, known: Mapping[str, str], present: Mapping[str, str]
) -> dict[str, str]:
    """Which cell each file of a report is: the one that ran, those that ran before with a name of their own (`known`), and of the
    others the only one with the same text among the `present` ones."""
    found = {program: here, **{file: cell for file, cell in known.items() if file in ran}}
    for file, text in ran.items():
        same = [cell for cell, now in present.items() if now.strip() == text.strip()]
        if file not in found and len(same) == 1:
            found[file] = same[0]
    return found
