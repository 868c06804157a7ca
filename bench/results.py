"""`bench/RESULTS.md`: one section a benchmark, each replaced by its own script's last run."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = "# Results\n\nEach section was written by the command it names. Ratios are ours over theirs: below 1 ours is faster.\n"


def write_section(title: str, command: str, columns: list[str], rows: list[list[str]], note: str = "") -> None:
    """Replace the section `title`, and print it. Raises RuntimeError where another tree's engine was measured."""
    import dynascope
    import torch

    if not Path(dynascope.__file__).is_relative_to(RESULTS.parent.parent):
        raise RuntimeError(f"what ran is {dynascope.__file__}, of another tree: set PYTHONPATH=engine")

    where = (
        f"{platform.processor() or platform.machine()}, CPython {platform.python_version()}, torch {torch.__version__}"
    )
    if torch.cuda.is_available():
        where += f", {torch.cuda.get_device_name()}"
    table = [columns, ["---"] * len(columns), *rows]
    body = "\n".join("| " + " | ".join(row) + " |" for row in table)
    section = f"## {title}\n\n`{command}` on {where}\n\n{body}\n" + (f"\n{note}\n" if note else "")
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else HEAD
    pattern = re.compile(rf"## {re.escape(title)}\n.*?(?=\n## |\Z)", re.S)
    text = pattern.sub(lambda _: section, text) if pattern.search(text) else f"{text.rstrip()}\n\n{section}"
    RESULTS.write_text(text, encoding="utf-8")
    sys.stdout.write(section + "\n")


def rows_of(title: str) -> list[list[str]]:
    """The rows of the section as they stand, for a command that measures some of them anew."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    found = re.search(rf"## {re.escape(title)}\n.*?(?=\n## |\Z)", text, re.S)
    lines = [line for line in (found.group() if found else "").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
