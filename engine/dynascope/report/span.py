"""Places in the user's files.

A `Span` is what every node, guard, break and kernel line carries, so that each can be shown on the line it came from.

    Span("model.py", 12, 8, 12, 21)      line 12, columns 8 to 21
    Span("model.py", 12)                 the whole of line 12
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from typing import Any

from dynascope.dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of one source file.

    Lines count from 1. Columns count UTF-8 bytes from 0, as `code.co_positions()` does (PEP 657); None stands for the
    whole line. Who needs characters or UTF-16 units converts with the line's text.
    """

    file: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None

    @property
    def last_line(self) -> int:
        return self.line if self.end_line is None else self.end_line

    def contains(self, other: Span) -> bool:
        """Whether the other expression is a part of this one, or the same."""
        if self.file != other.file or self.column is None or other.column is None:
            return False
        first, last = (self.line, self.column), (self.last_line, self.end_column or self.column)
        return first <= (other.line, other.column) and (other.last_line, other.end_column or other.column) <= last

    def source_line(self) -> str:
        """The text of the first line, without indentation; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def text(self) -> str:
        """The user's own expression; the whole line where columns are unknown or the expression spans lines."""
        if self.column is None or self.end_column is None or self.last_line != self.line:
            return self.source_line()
        line = linecache.getline(self.file, self.line).encode()
        return line[self.column : self.end_column].decode(errors="replace") or self.source_line()

    @property
    def place(self) -> str:
        """`model.py:12`: without the folder, so that a generated text stays the same when the project moves."""
        name = self.file.replace("\\", "/").rsplit("/", 1)[-1]
        # A name that is no UTF-8 is written with escapes: the text goes into files.
        return f"{name.encode(errors='backslashreplace').decode()}:{self.line}"

    def quotation(self) -> str:
        """`model.py:12: y = torch.relu(x)`, as generated texts say where a line of theirs came from."""
        source = self.source_line()
        return f"{self.place}: {source}" if source else self.place

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of a model, as the program reaches it (`self.body[0]`), its class, and the expression that built it."""

    expression: str
    kind: str
    built: Span | None = None


@dataclass(frozen=True, slots=True)
class UserFrame:
    """One level of the user's call stack at a step of capture: the function's qualified name and where in it.

    `first_line` and `last_line` are the whole function's, 0 where they are not known. `layer` is the layer whose library
    code does the step, where the step happens in a library that this frame called.
    """

    function: str
    span: Span
    first_line: int = 0
    last_line: int = 0
    layer: Layer | None = None

    def __str__(self) -> str:
        return f"{self.span} in {self.function}"


UserStack = tuple[UserFrame, ...]
"""Outermost caller first; the frame in which the step happens is last. Empty where no user code is concerned."""


def stacks_by_name(nodes: Iterable[Any]) -> dict[str, UserStack]:
    """Of a graph's nodes, those that a step of the program became."""
    return {node.name: node.meta["user_stack"] for node in nodes if node.meta.get("user_stack")}


STACKS = "__user_stacks__"
"""In the globals of generated code: where the program's steps are that the code's own names stand for, name -> stack. Tracebacks are
made of it."""
