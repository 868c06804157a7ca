"""Which files are the user's, and which of the user's places a step belongs to.

user_places(span in torch/nn/modules/linear.py, stack)  ->  (the line that called, the line that built the layer)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from dynascope.report.span import Span, UserStack

LIBRARY_FOLDERS = ("site-packages", "dist-packages")


@lru_cache(maxsize=4096)
def is_user_file(path: str) -> bool:
    """Neither installed, nor the standard library's, nor text without a file such as `<string>`."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith("<") or any(folder in parts for folder in LIBRARY_FOLDERS):
        return False
    return not any(a == "lib" and b.startswith("python3") for a, b in zip(parts, parts[1:], strict=False))


def user_place(span: Span | None, stack: UserStack) -> Span | None:
    """The place itself where it is in the user's files, else the innermost of the user's that led there."""
    if span is not None and is_user_file(span.file):
        return span
    return next((frame.span for frame in reversed(stack) if is_user_file(frame.span.file)), None)


def user_places(span: Span | None, stack: UserStack) -> tuple[Span, ...]:
    """The user's place, and beside it the expression that built the layer whose library code does the step."""
    return tuple(dict.fromkeys(_places(span, stack)))


def _places(span: Span | None, stack: UserStack) -> Iterator[Span]:
    place = user_place(span, stack)
    if place is not None:
        yield place
    layer = stack[-1].layer if stack else None
    if layer is not None and layer.built is not None and is_user_file(layer.built.file):
        yield layer.built


def shown_path(file: str) -> str:
    """Relative to the present folder where it lies in it, or was named from there (`../model.py`); else absolute."""
    relative = os.path.relpath(file)
    below_or_named = not relative.startswith("..") or ".." in file.replace("\\", "/").split("/")
    return relative if below_or_named else os.path.normpath(file)


def checkout_path(file: str) -> str | None:
    """As services that have the repository name a file: from its root, which GitHub's runner tells, else from the present folder. None of
    a file outside."""
    root = os.environ.get("GITHUB_WORKSPACE", "")
    for folder in (root, os.getcwd()):
        relative = os.path.relpath(os.path.realpath(file), os.path.realpath(folder)) if folder else ".."
        if relative.split(os.sep)[0] != "..":
            return relative.replace(os.sep, "/")
    return None


def same_file(file: str, other: str) -> bool:
    return os.path.abspath(file) == os.path.abspath(other)
