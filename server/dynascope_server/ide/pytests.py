"""The tests of a file, as pytest names them.

    pytests("def test_a(): ...\\nclass TestB:\\n    def test_c(self): ...\\n")  ->  (Test("test_a", 1, 1), Test("TestB::test_c", 3, 3))
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

FILES = re.compile(r"(?:test_.*|.*_test)\.py")
"""What pytest collects by itself."""


@dataclass(frozen=True, slots=True)
class Test:
    name: str
    first: int
    """The line of its `def`, from 1."""
    last: int
    decorated: int = 0
    """Where its decorators begin."""


def pytests(text: str) -> tuple[Test, ...]:
    """Empty where Python cannot read the text."""
    try:
        return tuple(_tests(ast.parse(text).body, ""))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def is_file_of_tests(path: str) -> bool:
    return FILES.fullmatch(os.path.basename(path)) is not None


def test_at(text: str, line: int) -> Test | None:
    """The test that line (from 1) lies in."""
    return next((test for test in pytests(text) if test.decorated <= line <= test.last), None)


def _tests(statements: list[ast.stmt], prefix: str) -> Iterator[Test]:
    for statement in statements:
        if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            yield from _tests(statement.body, f"{prefix}{statement.name}::")
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name.startswith("test"):
            first = min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
            yield Test(f"{prefix}{statement.name}", statement.lineno, statement.end_lineno or statement.lineno, first)
