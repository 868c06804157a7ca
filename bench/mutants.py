"""Mutation of our own code: one comparison, constant, boolean or statement is changed, and the tests that run it must notice.

    python bench/reach.py .build/reach.json tests/capture tests/grad ...    first: which tests run what (an hour for all of them)
    python bench/mutants.py --count 200 --seed 1                            of all folders, one process
    python bench/mutants.py --folder grad loops --each 40                   forty of each of these
    python bench/mutants.py --folder grad --part 2/15                       every 15th of them, from the second

A mutant runs in a copy of the engine, which comes first on the path; the working tree is not touched. Its tests are those that
reach the changed block, the quickest and some others, as many as take about `SECONDS`; the first that fails ends them. A line for
each mutant as JSON: file, line, what was changed, the test that failed. At the end: how many were noticed, and those that were not.
What changes nothing that a program could see is not changed at all, by syntax (`unseen`):
    the limits of a search        numbers above 2 in a module's `NAME = 64` or `NAMES = (64, 16)`: another finds more or less, nothing wrong
    what Python is told of a class or cache    arguments of `dataclass`, `field`, `lru_cache`
    assertions                    `strict=` of zip; a `raise AssertionError` or `NotImplementedError` without words, which never happens
    what the engine tries itself on    numbers of `_probes` and `_witnesses`: others tell as much
    how our own objects look to us    `__repr__`
or stands in `EQUIVALENT`, with its reason.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import itertools
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from reach import FOLDERS, ROOT, Table, blocks, read_by_capture, tests_arguments
from results import write_section

ENGINE = ROOT / "engine" / "dynascope"
SECONDS = 40
"""Of tests for one mutant, as they took when the table was made; a test that takes more than a third is left out."""
LIMIT = 400
"""Seconds for the tests of one mutant: what hangs is noticed."""
OPPOSITE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
READ_BY_CAPTURE = ["tests/capture/test_alive_across_breaks.py", "tests/capture/test_programs.py",
                   "tests/capture/test_calls_of_python.py"]  # fmt: skip
"""Tests of functions that capture reads as the program's own: they cannot note that they are reached."""
FORKS = multiprocessing.get_context("forkserver")
TITLE, COLUMNS = "Mutants", ["folder", "mutants", "noticed", "share", "without a test"]
TRIED_ON = {"_probes", "_witnesses"}
TOLD_TO_PYTHON = {"dataclass", "field", "lru_cache"}
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("engine/dynascope/loops/index.py", "_collect", "Gt to GtE"): "one term is sorted already",
}
"""By file, function and the change: why no program can tell."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reach", default=".build/reach.json", help="the table that bench/reach.py has made")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="i/n: every n-th of the mutants chosen, from the i-th")
    parser.add_argument("--folder", choices=FOLDERS, nargs="+", default=FOLDERS, help="of the engine; all of them without it")
    parser.add_argument("--each", type=int, help="so many of each folder, in place of --count of all")
    parser.add_argument("--only", default="", help="FILE:LINE, separated by commas: all mutants there")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new mutant is begun after them")
    parser.add_argument("--write", action="store_true", help="the section of bench/RESULTS.md")
    options = parser.parse_args()
    table: Table = json.loads(Path(options.reach).read_text())
    os.environ["OMP_NUM_THREADS"] = "1"  # for the server of forks, which imports torch
    FORKS.set_forkserver_preload(["torch", "numpy", "pytest", "hypothesis"])
    end = time.monotonic() + options.seconds
    facts = []
    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        for fact in pool.map(lambda place: examined(*place, table, end), chosen(options)):
            if fact is not None:
                facts.append(fact)
                print(json.dumps(fact), flush=True)
    unnoticed = [fact for fact in facts if not fact["noticed"]]
    print(f"{len(facts) - len(unnoticed)} of {len(facts)} mutants noticed")
    if options.write:
        rows = rows_of(facts)
        note = "Without a test: none of the table reaches the block; code for another Python, or what only other processes run."
        write_section(TITLE, f"python bench/mutants.py {' '.join(sys.argv[1:])}", COLUMNS, rows, note)
    return bool(unnoticed)


def rows_of(facts: list[dict]) -> list[list[str]]:
    folders = {fact["file"].split("/")[2]: None for fact in facts}
    rows = []
    for name in [*folders, "all"]:
        own = [fact for fact in facts if name in ("all", fact["file"].split("/")[2])]
        noticed, without = (sum(map(bool, values)) for values in ([f["noticed"] for f in own], [not f["tests"] for f in own]))
        rows.append([name, str(len(own)), str(noticed), f"{noticed / len(own):.0%}", str(without)])
    return rows


def chosen(options: argparse.Namespace) -> list[tuple[Path, int]]:
    wanted = {tuple(each.rsplit(":", 1)) for each in options.only.split(",") if each}
    if wanted:
        return [place for name in FOLDERS for place in places_in(name, wanted)]
    pools = [places_in(name) for name in options.folder]
    if options.each is None:
        pools = [[place for pool in pools for place in pool]]
    count = options.count if options.each is None else options.each
    drawn = [random.Random(options.seed).sample(pool, min(count, len(pool))) for pool in pools]
    in_turn = [place for turn in itertools.zip_longest(*drawn) for place in turn if place is not None]
    part, parts = map(int, options.part.split("/"))
    return in_turn[part::parts]


def places_in(folder: str, wanted: Collection[tuple[str, str]] = ()) -> list[tuple[Path, int]]:
    """Each file of the folder, and the numbers of its mutants that a program could tell."""
    places = []
    for file in sorted((ENGINE / folder).rglob("*.py")):
        tree, own = ast.parse(file.read_text()), str(file.relative_to(ROOT))
        for number, (node, change) in enumerate(mutations(tree)):
            if (own, str(node.lineno)) in wanted or not wanted and (own, function_of(tree, node), change) not in EQUIVALENT:
                places.append((file, number))
    return places


def mutations(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Changes the tree at one place after the other, and back: what stands there while the caller looks at it."""
    spared = unseen(tree)
    for node in list(ast.walk(tree)):
        if node in spared:
            continue
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


def unseen(tree: ast.Module) -> set[ast.AST]:
    """Nodes whose change no program can see; why stands in the head."""
    roots: list[ast.AST] = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and all(map(_is_limit, statement.targets)):
            inner = list(ast.walk(statement.value))
            if all(isinstance(node, (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.expr_context)) for node in inner):
                roots += [n for n in inner if isinstance(n, ast.Constant) and type(n.value) is int and n.value > 2]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TOLD_TO_PYTHON:
            roots += [keyword.value for keyword in node.keywords]
        elif isinstance(node, ast.keyword) and node.arg == "strict":
            roots.append(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name == "__repr__":
            roots.append(node)
        elif isinstance(node, ast.FunctionDef) and node.name in TRIED_ON:
            roots += [inner for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
    return {inner for root in roots for inner in ast.walk(root)}


def _is_limit(target: ast.AST) -> bool:
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(name, ast.Name) and name.id.isupper() for name in names)


def _dropped(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for at, statement in enumerate(node.body):
        if isinstance(statement, (ast.Expr, ast.AugAssign, ast.Raise)) and not _is_text(statement) and not _is_assertion(statement):
            node.body[at] = ast.copy_location(ast.Pass(), statement)
            yield statement, f"dropped: {ast.unparse(statement)[:60]}"
            node.body[at] = statement


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_assertion(statement: ast.stmt) -> bool:
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    called = raised.func if isinstance(raised, ast.Call) else raised
    abstract = isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return abstract or isinstance(called, ast.Name) and called.id == "AssertionError"


def function_of(tree: ast.Module, place: ast.AST) -> str:
    """The name of the innermost function around a node, or nothing."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    around = [n for n in ast.walk(tree) if isinstance(n, kinds) and n.lineno <= place.lineno <= n.end_lineno]
    return max(around, key=lambda function: function.lineno).name if around else ""


def examined(file: Path, number: int, table: Table, end: float) -> dict | None:
    if time.monotonic() > end:
        return None
    own = str(file.relative_to(ROOT))
    tree = ast.parse(file.read_text())
    for count, (node, change) in enumerate(mutations(tree)):
        if count == number:
            fact = {"file": own, "line": node.lineno, "function": function_of(tree, node), "change": change}
            tests = tests_of(tree, node, own, table)
            said = failed_test(file, ast.unparse(tree), tests)
            return {**fact, "noticed": said is not None, "by": said, "tests": len(tests)}
    raise AssertionError("the file has changed meanwhile")


def tests_of(tree: ast.Module, place: ast.AST, file: str, table: Table) -> list[str]:
    """Those that reach the innermost block around the place; of a module's own tables, those that reach its functions."""
    inside = [b[0].lineno for b in blocks(tree) if b[0].lineno <= place.lineno <= b[-1].end_lineno]
    read = any(f.lineno <= place.lineno <= f.end_lineno for f in read_by_capture(tree)) and "/capture/" in file
    reached = table.get(f"{file}:{max(inside)}", {}) if inside and not read else {}
    if not inside or read:
        lines = [b[0].lineno for b in blocks(tree)]
        for tests in filter(None, (table.get(f"{file}:{line}") for line in lines)):
            reached = reached | tests
    return [*(READ_BY_CAPTURE if read else ()), *some_of(reached, f"tests/{Path(file).parts[2]}/")]


def some_of(reached: dict[str, float], near: str) -> list[str]:
    """About a minute of tests, by turns: the quickest, one of the folder's own and one of all, drawn by their files: of a file with
    hundreds of cases no more than of others before those have come."""
    quick = [test for test in sorted(reached, key=lambda test: reached[test]) if reached[test] < SECONDS / 3]
    drawn = by_files(random.Random(0).sample(quick, len(quick)))
    own = [test for test in drawn if test.startswith(near)]
    found: dict[str, float] = {}
    for turn in itertools.zip_longest(quick, own, drawn):
        for test in filter(None, turn):
            if test not in found and sum(found.values()) + reached[test] < SECONDS:
                found[test] = reached[test]
    return list(found)


def by_files(tests: list[str]) -> list[str]:
    """First one of each file, then another of each."""
    files: dict[str, int] = collections.Counter()
    turns = []
    for test in tests:
        file = test.partition("::")[0]
        files[file] += 1
        turns.append(files[file])
    return [test for _, test in sorted(zip(turns, tests, strict=True), key=lambda pair: pair[0])]


def failed_test(file: Path, text: str, tests: list[str]) -> str | None:
    """The first test that fails with this text in place of the file's."""
    if not tests:
        return None
    with tempfile.TemporaryDirectory() as place:
        engine, said = Path(place, "engine"), Path(place, "said")
        shutil.copytree(ROOT / "engine", engine)  # with what is compiled of it: a file that changed is newer than that
        Path(place, file.relative_to(ROOT)).write_text(text)
        process = FORKS.Process(target=run_tests, args=(engine, tests, said))
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            os.killpg(process.pid, signal.SIGKILL)
            return "no end"
        if process.exitcode == 0:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said.read_text(errors="replace"), re.MULTILINE)
        return failed.group(1) if failed else f"exit code {process.exitcode}"


def run_tests(engine: Path, tests: list[str], said: Path) -> None:
    """In a process that has torch and pytest already, and nothing of the engine."""
    os.setpgid(0, 0)
    output = os.open(said, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    arguments, surroundings = tests_arguments(engine, ["-x", *tests])
    os.environ.update(surroundings)
    sys.path[:0] = surroundings["PYTHONPATH"].split(os.pathsep)
    os.chdir(ROOT)
    sys.exit(pytest.main(arguments))


if __name__ == "__main__":
    sys.exit(main())
