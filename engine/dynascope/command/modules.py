"""A file that Python runs only as a module of its package, because it imports from there by dots.

module_of("project/pkg/main.py", "from .blocks import Gate\\n")  ->  Module("pkg.main", "project")
"""

from __future__ import annotations

import argparse
import ast
import os
from pathlib import Path

from dynascope.dataclass import dataclass

PACKAGE = "__init__.py"
ITSELF = "__main__"


@dataclass(frozen=True, slots=True)
class Module:
    """`root` is the folder in which Python finds it; None: one of those where it looks."""

    name: str
    root: str | None = None


def as_module(options: argparse.Namespace) -> Module | None:
    """The program that a command is given, where it is to be run by a module's name: asked for, or because Python takes it only so."""
    return Module(options.file) if getattr(options, "module", False) else module_of_file(options.file)


def module_of_file(file: str) -> Module | None:
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return module_of(os.path.abspath(file), text)


def module_of(path: str, text: str) -> Module | None:
    """None for a file that runs by its own name: none of its imports is relative, or no package is around it."""
    folder, file = os.path.split(path)
    stem = file.removesuffix(".py")
    if not file.endswith(".py") or file == PACKAGE or not os.path.isfile(os.path.join(folder, PACKAGE)) or not _imports_by_dots(text):
        return None
    names = [] if stem == ITSELF else [stem]
    while os.path.isfile(os.path.join(folder, PACKAGE)):
        folder, name = os.path.split(folder)
        names.insert(0, name)
    return Module(".".join(names), folder) if all(map(str.isidentifier, names)) else None


def _imports_by_dots(text: str) -> bool:
    """As the first thing that it does: what stands in a `try`, a function or under a condition may be meant for both ways."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for node in tree.body)
