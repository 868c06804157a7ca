"""The text of a Python file on disk, as Python decodes it."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path


def read_source(path: str) -> str:
    """Empty where the file cannot be read; characters that do not fit the file's encoding read as U+FFFD."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return ""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8-sig"
    return data.decode(encoding, errors="replace")
