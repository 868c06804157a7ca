"""The lines of a text as Python and LSP count them; `str.splitlines` also ends lines at form feeds and the like."""

from __future__ import annotations

import re

LINE_END = re.compile(r"\r\n|\n|\r")


def text_lines(text: str) -> list[str]:
    """Without their ends; a text that ends with a line end has an empty last line."""
    return LINE_END.split(text)
