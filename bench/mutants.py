"""Mutation of our own code: one comparison, constant, boolean or statement is changed, and the tests of its folder must notice.

    python bench/mutants.py --count 40 --seed 1                     of all folders, one process
    python bench/mutants.py --folder grad --seconds 600 --processes 15

A line for each mutant as JSON: file, line, what was changed, whether a test failed. A mutant runs in a copy of the engine, which
comes first on the path; the working tree is not touched. At the end: how many were noticed, and those that were not.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
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
TESTS = {
    "capture": [
        "tests/capture/test_programs.py",
        "tests/capture/test_python_protocols.py",
        "tests/capture/test_seeds.py",
    ],
    "grad": ["tests/grad/test_operators.py", "tests/grad/test_differential.py", "tests/grad/test_gradient_strides.py"],
    "loops": ["tests/loops", "tests/differential/test_lowered_places.py", "tests/differential/test_random_programs.py"],
    "codegen": ["tests/codegen/test_cpp.py", "tests/differential/test_random_programs.py"],
}
LIMIT = 600
"""Seconds for the tests of one mutant: what hangs is noticed."""
OPPOSITE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", choices=TESTS, help="of the engine; all four without it")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new mutant is begun after them")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    files = [f for name in TESTS if options.folder in (None, name) for f in (ENGINE / name).rglob("*.py")]
    places = [
        (file, number) for file in sorted(files) for number, _ in enumerate(mutations(ast.parse(file.read_text())))
    ]
    chosen = random.Random(options.seed).sample(places, min(options.count, len(places)))
    facts = []
    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        for fact in pool.map(lambda place: examined(*place, end), chosen):
            if fact is not None:
                facts.append(fact)
                print(json.dumps(fact), flush=True)
    unnoticed = [fact for fact in facts if not fact["noticed"]]
    print(f"{len(facts) - len(unnoticed)} of {len(facts)} mutants noticed")
    return bool(unnoticed)


ENGINE = ROOT / "engine" / "dynascope"


def mutations(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Changes the tree at one place after the other, and back: what stands there while the caller looks at it."""
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Compare):
            was = node.ops[0]
            node.ops[0] = OPPOSITE[type(was)]()
            yield node, f"{type(was).__name__} to {type(node.ops[0]).__name__}"
            node.ops[0] = was
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
            was = node.value
            node.value = not was if isinstance(was, bool) else was + 1
            yield node, f"{was} to {node.value}"
            node.value = was
        elif isinstance(node, ast.BoolOp):
            was = node.op
            node.op = ast.And() if isinstance(was, ast.Or) else ast.Or()
            yield node, f"{type(was).__name__} to {type(node.op).__name__}"
            node.op = was
        elif isinstance(node, (ast.FunctionDef, ast.If, ast.For, ast.With)):
            yield from _dropped(node)


def _dropped(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for at, statement in enumerate(node.body):
        if isinstance(statement, (ast.Expr, ast.AugAssign, ast.Raise)) and not _is_text(statement):
            node.body[at] = ast.copy_location(ast.Pass(), statement)
            yield statement, f"dropped: {ast.unparse(statement)[:60]}"
            node.body[at] = statement


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def examined(file: Path, number: int, end: float) -> dict | None:
    if time.monotonic() > end:
        return None
    folder = file.relative_to(ENGINE).parts[0]
    tree = ast.parse(file.read_text())
    for count, (node, change) in enumerate(mutations(tree)):
        if count == number:
            fact = {"file": str(file.relative_to(ROOT)), "line": node.lineno, "change": change}
            return {**fact, "noticed": is_noticed(file, ast.unparse(tree), TESTS[folder])}
    raise AssertionError("the file has changed meanwhile")


def is_noticed(file: Path, text: str, tests: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(ROOT / "engine", Path(place, "engine"), ignore=shutil.ignore_patterns("__pycache__"))
        Path(place, file.relative_to(ROOT)).write_text(text)
        paths = [str(Path(place, "engine")), str(ROOT / "server")]
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        found = f"pythonpath={' '.join([*paths, str(ROOT / 'tests' / 'loops')])}"  # in place of pyproject.toml's
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", found, *tests]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return True
        return ended.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
