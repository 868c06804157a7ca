"""A program's file as Python reads it, and written back as it was: its encoding, its mark at the start, its line ends.

text = read_program("train.py")           lines end with "\\n", whatever the file has
write_program("train.py", text)
"""

from __future__ import annotations

import io
import tokenize
from pathlib import Path


def read_program(path: str) -> str:
    """Raises `SyntaxError` or `UnicodeDecodeError` for bytes that Python does not take either."""
    with tokenize.open(path) as file:
        return file.read()


def write_program(path: str, text: str) -> None:
    """The file is there already; it has its encoding and its line ends afterwards too."""
    data = Path(path).read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    Path(path).write_text(text, encoding=encoding, newline=line_end(data))


def encoded(text: str) -> bytes:
    """In the encoding that the text says it has."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    return text.encode(encoding)


def line_end(data: bytes) -> str:
    """The one that most lines have."""
    windows = data.count(b"\r\n")
    return "\r\n" if 2 * windows > data.count(b"\n") else "\n"
