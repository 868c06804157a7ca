"""`make test-matrix`: the suite's core on every CPython and torch that can be had here, and the table that the README shows.

    python tests/matrix.py                          every CPython found, with each torch that installs for it
    python tests/matrix.py --interpreter PATH ...   these interpreters, with the torch that each has
    python tests/matrix.py --tritons PATH           only whether each Triton builds the kernels, in this interpreter (no GPU needed)

A result is kept in `tests/matrix.json` (Tritons in `tests/tritons.json`) with the version that was run, so that machines can
add to one table. An environment is made in `.build/matrix` and taken away afterwards: torch with its CUDA libraries has 5 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "engine"))

from dynascope.requirements import PYTHONS, TORCHES, numbers, spelled  # noqa: E402

CORE = ("frame", "guards", "capture", "api", "seeds", "command", "grad", "runtime")
# On a Python that is newer than tested, functions are compiled as a whole only: what holds there.
SERVED = ("frame", "api/test_unknown_frames.py", "api/test_versions.py", "grad", "loops")
TRITONS = ("3.6", "3.7", "3.8", "3.9")
KERNELS = "tests/runtime/test_cuda_compile.py"
RESULTS = ROOT / "tests" / "matrix.json"
TRITON_RESULTS = ROOT / "tests" / "tritons.json"
README = ROOT / "README.md"
ENVIRONMENTS = ROOT / ".build" / "matrix"
BEGINS, ENDS = "<!-- matrix: written by `make test-matrix` -->", "<!-- end of matrix -->"
PACKAGES = ("numpy", "expecttest", "pytest", "pytest-timeout", "hypothesis", "jsonschema", "rich")
FACTS = """
import json, sys, torch
print(json.dumps([".".join(map(str, sys.version_info[:3])), str(torch.__version__)]))
"""
SECONDS = 3 * 3600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interpreter", action="append", default=[], help="one that has torch and pytest; no other is looked for")
    parser.add_argument("--tritons", metavar="PATH", help="an interpreter that has torch and pytest, to try every Triton in")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args()
    # A shell starts what runs behind its back with interrupts ignored, and tests that interrupt programs would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.tritons:
        try_tritons(options.tritons)
    elif not options.table:
        for interpreter in options.interpreter or made_interpreters():
            run(interpreter)
    results, tritons = known(RESULTS), known(TRITON_RESULTS)
    write_table(results, tritons)
    return 0 if all(result["failed"] == 0 for result in (*results.values(), *tritons.values())) else 1


def known(file: Path) -> dict:
    return json.loads(file.read_text()) if file.exists() else {}


def run(interpreter: str) -> None:
    facts = subprocess.run([interpreter, "-c", FACTS], capture_output=True, text=True)
    if facts.returncode != 0:
        print(f"{interpreter}: {facts.stderr.strip().splitlines()[-1]}")
        return
    python, torch = json.loads(facts.stdout.splitlines()[-1])
    started = time.monotonic()
    passed, failed = core(interpreter, CORE if numbers(python) <= PYTHONS[1] else SERVED)
    key = f"{spelled(numbers(python))} {spelled(numbers(torch))}"
    # Read again: another process may have added to it meanwhile.
    results = known(RESULTS)
    results[key] = dict(python=python, torch=torch, passed=passed, failed=failed)
    RESULTS.write_text(json.dumps(dict(sorted(results.items(), key=by_versions)), indent=1) + "\n")
    print(f"Python {python}, torch {torch}: {passed} passed, {failed} failed, {time.monotonic() - started:.0f} s", flush=True)


def try_tritons(interpreter: str) -> None:
    """Each beside whatever the interpreter has: machine code for sm_90 of every pattern of kernel."""
    results = {}
    for version in TRITONS:
        folder = ENVIRONMENTS / f"triton-{version}"
        shutil.rmtree(folder, ignore_errors=True)
        install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", folder]
        if subprocess.run([*install, f"triton=={version}.*"]).returncode == 0:
            installed = next(folder.glob("triton-*.dist-info")).name.removeprefix("triton-").removesuffix(".dist-info")
            passed, failed = tests(interpreter, [KERNELS], folder)
            results[version] = dict(triton=installed, passed=passed, failed=failed)
            print(f"Triton {installed}: {passed} passed, {failed} failed", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    TRITON_RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def core(interpreter: str, parts: tuple[str, ...]) -> tuple[int, int]:
    return tests(interpreter, [f"tests/{name}" for name in parts])


def tests(interpreter: str, places: list[str], *before: Path) -> tuple[int, int]:
    """Passed and failed tests, with these folders first on the path. A run that does not end well by itself has failed."""
    summary = ENVIRONMENTS / f"{os.getpid()}.xml"
    summary.parent.mkdir(parents=True, exist_ok=True)
    path = (*before, ROOT / "engine", ROOT / "server")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [interpreter, "-m", "pytest", "-q", f"--junitxml={summary}", *places]
    ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, timeout=SECONDS)
    if not summary.exists():
        return 0, 1
    counts = [suite.attrib for suite in xml.etree.ElementTree.parse(summary).iter("testsuite")]
    summary.unlink()
    total = {name: sum(int(count[name]) for count in counts) for name in ("tests", "failures", "errors", "skipped")}
    bad = total["failures"] + total["errors"]
    return total["tests"] - bad - total["skipped"], bad or int(ended.returncode != 0)


# ---- what can be had here


def made_interpreters() -> Iterator[str]:
    """One environment after the other, each taken away when the next is asked for."""
    for python in found_pythons():
        for torch in torches():
            folder = ENVIRONMENTS / f"{Path(python).name}-{torch}"
            shutil.rmtree(folder, ignore_errors=True)
            made = folder / "bin" / "python"
            subprocess.run([python, "-m", "venv", folder], check=True)
            install = [made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            if subprocess.run([*install, f"torch=={torch}.*", *PACKAGES, str(ROOT)]).returncode == 0:
                yield str(made)
            else:
                print(f"{python}: there is no torch {torch} for it")
            shutil.rmtree(folder, ignore_errors=True)


def found_pythons() -> Iterator[str]:
    """The tested versions on the PATH or of pyenv, the lowest first; the first of each version that starts."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(PYTHONS[0][1], PYTHONS[1][1] + 1):
        candidates = [f"python3.{minor}", *sorted(map(str, versions.glob(f"3.{minor}.*/bin/python3.{minor}")))]
        works = (c for c in candidates if shutil.which(c) and subprocess.run([c, "-c", ""], capture_output=True).returncode == 0)
        found = next(works, None)
        if found is not None:
            yield found


def torches() -> list[str]:
    return [f"{TORCHES[0][0]}.{minor}" for minor in range(TORCHES[0][1], TORCHES[1][1] + 1)]


# ---- the table


def write_table(results: dict, tritons: dict) -> None:
    text = README.read_text()
    pattern = re.compile(f"{re.escape(BEGINS)}.*?{re.escape(ENDS)}", re.DOTALL)
    lines = [BEGINS, *table(results), "", *words_on(tritons), ENDS]
    README.write_text(pattern.sub(lambda _: "\n".join(lines), text))


def words_on(tritons: dict) -> Iterator[str]:
    build = [result["triton"] for result in tritons.values() if not result["failed"]]
    if build:
        yield f"Kernels are built for sm_90 by Triton {', '.join(build)}."


def table(results: dict) -> list[str]:
    """A row a Python, a column a torch: what was run there. Then what no column says."""
    columns = sorted({*torches(), *(spelled(numbers(result["torch"])) for result in results.values())}, key=numbers)
    first, last = PYTHONS
    rows = {f"3.{minor}" for minor in range(first[1], last[1] + 1)} | {spelled(numbers(r["python"])) for r in results.values()}
    lines = ["| CPython | " + " | ".join(f"torch {column}" for column in columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    for row in sorted(rows, key=numbers):
        cells = [cell(results.get(f"{row} {column}"), row, column) for column in columns]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines


def cell(result: dict | None, python: str, torch: str) -> str:
    noted = numbers(python) > PYTHONS[1] or numbers(torch) > TORCHES[1]
    if result is None:
        return "with a note" if noted else "served"
    outcome = f"{result['failed']} tests fail" if result["failed"] else "tried" if noted else "tested"
    return f"{outcome}, with a note" if noted else outcome


def by_versions(item: tuple[str, dict]) -> tuple:
    return tuple(map(numbers, item[0].split()))


if __name__ == "__main__":
    sys.exit(main())
