"""Which tests of the suite run which blocks of the engine: a plugin of pytest, and the table that it leaves.

    python bench/reach.py .build/reach.json tests/capture tests/grad ...      adds the tests of these to the table
    python bench/reach.py .build/reach.json -n 30 --dist loadfile tests       by thirty processes; what it does not know is pytest's

In a copy of the engine every block begins with a note that it was reached. (A tracer would not do: a program that is traced
runs as it was written.) A block's name is "file:line of its first statement"; kept are the tests that reach it and their seconds.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("capture", "grad", "loops", "codegen", "schedule", "guards", "sizes")
"""Of the engine: where notes are made."""
KEPT = 400
"""Tests of a block: the quickest, and others drawn."""

UNHEARD = "\nimport builtins\n\nif not hasattr(builtins, '__reached__'):\n    builtins.__reached__ = id\n"
"""In processes that tests start nobody reads the notes."""

Table = dict[str, dict[str, float]]


def main() -> int:
    place, tests = Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        engine = Path(folder, "engine")
        shutil.copytree(ROOT / "engine", engine, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FOLDERS:
            for file in (engine / "dynascope" / name).rglob("*.py"):
                file.write_text(noted(file.read_text(), str(file.relative_to(folder))))
        package = engine / "dynascope" / "__init__.py"
        package.write_text(package.read_text().replace("\n__version__", UNHEARD + "\n__version__", 1))
        arguments, surroundings = tests_arguments(engine, ["-p", "reach", *tests])
        paths = surroundings["PYTHONPATH"], str(ROOT / "bench")
        found = Path(folder, "found")
        found.mkdir()
        surroundings |= {"PYTHONPATH": os.pathsep.join(paths), "DYNASCOPE_REACH": str(found)}
        ended = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=surroundings).returncode
        add_to_table(place, [json.loads(file.read_text()) for file in found.iterdir()])
        return ended


def add_to_table(place: Path, found: list[Table]) -> None:
    table: Table = json.loads(place.read_text()) if place.exists() else {}
    for block in {block for part in found for block in part}:
        tests = table.get(block, {})
        for part in found:
            tests = tests | part.get(block, {})
        table[block] = _some_of(tests)
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(table))


def tests_arguments(engine: Path, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Of pytest on another copy of the engine than the working tree's, and its environment."""
    paths = [str(engine), str(ROOT / "server")]
    found = f"pythonpath={' '.join([*paths, str(ROOT / 'tests' / 'loops')])}"  # in place of pyproject.toml's
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return ["-q", "-p", "no:cacheprovider", "-o", found, *arguments], surroundings


def blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """The bodies of functions, and of the statements in them."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _blocks_below(function)


def read_by_capture(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions that stand for others and that capture reads as the program's own: those without annotations. They make no notes."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    plain = [f for f in functions if f.returns is None and f.name != "__init__"]
    return [f for f in plain if not any(a.annotation for a in [*f.args.args, *f.args.kwonlyargs])]


def _blocks_below(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt) and not isinstance(node, ast.ClassDef):
            yield body
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):  # they come by themselves
                yield from _blocks_below(child)


def noted(text: str, file: str) -> str:
    tree = ast.parse(text)
    spared = {body[0] for function in read_by_capture(tree) for body in _blocks_below(function)}
    for body in [body for body in blocks(tree) if body[0] not in spared]:
        note = ast.parse(f"__reached__({f'{file}:{body[0].lineno}'!r})").body[0]
        is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        at = 1 if is_text else 0
        while at < len(body) and isinstance(body[at], (ast.Nonlocal, ast.Global)):
            at += 1
        body.insert(at, note)
    return ast.unparse(ast.fix_missing_locations(tree))


# -- the plugin -------------------------------------------------------------------------------------------------------

_reached: set[str] = set()
_failed: set[str] = set()
_table: Table = {}
if "DYNASCOPE_REACH" in os.environ:
    builtins.__reached__ = _reached.add  # type: ignore[attr-defined]
    import pytest

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
        _reached.clear()
        start = time.perf_counter()
        result = yield
        seconds = round(time.perf_counter() - start, 3)
        for block in list(_reached) if item.nodeid not in _failed else ():
            _table.setdefault(block, {})[item.nodeid] = seconds
        return result

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        if report.failed:  # in a copy without a change: it would notice anything
            _failed.add(report.nodeid)

    def pytest_sessionfinish() -> None:
        Path(os.environ["DYNASCOPE_REACH"], f"{os.getpid()}.json").write_text(json.dumps(_table))


def _some_of(tests: dict[str, float]) -> dict[str, float]:
    quickest = sorted(tests, key=lambda test: tests[test])
    others = quickest[KEPT // 2 :]
    drawn = random.Random(0).sample(others, min(len(others), KEPT // 2))
    return {test: tests[test] for test in quickest[: KEPT // 2] + drawn}


if __name__ == "__main__":
    sys.exit(main())
