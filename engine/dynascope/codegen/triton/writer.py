"""Lines of a kernel's text, each with the user's line that it came from.

writer.write("x0 = tl.load(x + r0)", origin)     # preceded by `# model.py:3: y = x + 1` where the line changes
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dynascope.loops.nodes import Origin
from dynascope.report.facts import LineLink
from dynascope.report.span import Span

_INDENT = "    "


class KernelWriter:
    """The text of one kernel, as it grows."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.links: list[LineLink] = []
        self._depth = 0
        self._span: Span | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def write(self, line: str, origin: Origin | None = None) -> None:
        span = origin.span if origin is not None else None
        if span is not None and (self._span is None or (span.file, span.line) != (self._span.file, self._span.line)):
            self._append(f"# {span.quotation()}")
            self._span = span
            self.links.append(LineLink(len(self.lines), span))
        self._append(line)
        if span is not None:
            self.links.append(LineLink(len(self.lines), span))

    def write_all(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """The lines written inside belong to `head`."""
        self.write(head)
        self._depth += 1
        # A comment at another depth would read as if it still held.
        self._span = None
        yield
        self._depth -= 1
        self._span = None

    def _append(self, line: str) -> None:
        self.lines.append(_INDENT * self._depth + line if line else "")
