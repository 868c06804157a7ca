"""Python's own tests, each method compiled: is the outcome that of Python?

    python bench/python_suite.py test_dict test_generators      these modules of the `test` package
    python bench/python_suite.py --processes 2                  those listed below
    python bench/python_suite.py --seconds 20 test_set          no method longer than this

Each test method is compiled whole with the backend "eager" and called; what it calls is followed as any program is. It passes, fails or
raises as the method does in plain Python, or the difference is printed with its traceback. Methods that ask for reference counts, object
identities that Python does not promise, or the end of an object differ for good.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import signal
import subprocess
import sys
import unittest
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

MODULES = """
abc argparse array asyncgen augassign baseexception binop bisect bool builtin bytes calendar call class cmath collections compare complex
configparser contains context contextlib copy coroutines csv dataclasses decorators defaultdict deque descr dict dictcomps dictviews enum
enumerate except_star exception_group exceptions extcall finalization float format fractions fstring funcattrs functools generators global
grammar hash heapq index inspect int isinstance iter itertools keywordonlyarg list long math memoryview metaclass module named_expressions
numbers numeric_tower opcodes operator ordered_dict patma pep479 positional_only_arg pow pprint property raise random range re reprlib
richcmp scope set shlex slice sort statistics string struct subclassinit super textwrap tuple typechecks types typing unpack userdict
userlist userstring weakref weakset with yield_from
""".split()  # noqa: SIM905


class Slow(BaseException):
    """A method that takes longer than it may."""


def outcome(case: type[unittest.TestCase], method: str, seconds: int, compiled: bool) -> tuple[str, str]:
    """One word, and the end of a traceback."""
    import dynascope

    instance = case(method)
    if compiled:
        setattr(instance, method, dynascope.compile(getattr(case, method), backend="eager").__get__(instance))
    result = unittest.TestResult()
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            instance.run(result)
    except Slow:
        return "slow", ""
    finally:
        signal.alarm(0)
    for word, entries in (("error", result.errors), ("failure", result.failures)):
        if entries:
            return word, entries[0][1][-1800:]
    return ("skipped" if result.skipped else "passed"), ""


def cases_of(name: str) -> Iterator[tuple[type[unittest.TestCase], list[str]]]:
    module = importlib.import_module(f"test.{name}")
    for case in list(vars(module).values()):
        if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == module.__name__:
            yield case, list(unittest.TestLoader().getTestCaseNames(case))


def run(name: str, seconds: int) -> None:
    import dynascope

    def stop(*_: object) -> None:
        raise Slow

    signal.signal(signal.SIGALRM, stop)
    total = same = 0
    for case, methods in cases_of(name):
        case.setUpClass()
        for method in methods:
            plain, _ = outcome(case, method, seconds, compiled=False)
            if plain in ("skipped", "slow"):
                continue
            ours, traceback = outcome(case, method, seconds, compiled=True)
            dynascope.reset()
            total += 1
            same += ours == plain
            if ours != plain:
                print(f"{name} {case.__name__}.{method}: {plain}, compiled {ours}\n    " + traceback.replace("\n", "\n    "))
        case.tearDownClass()
    print(f"{name}: {total} methods, {same} as in Python", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--here", action="store_true", help="in this process, one module")
    options = parser.parse_args()
    if options.here:
        warnings.simplefilter("ignore")
        run(options.modules[0], options.seconds)
        return

    def of_module(name: str) -> str:
        command = [sys.executable, __file__, "--here", "--seconds", str(options.seconds), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else f"{done.stdout}{name}: ended with {done.returncode}\n{done.stderr[-800:]}"

    names = [name if name.startswith("test") else f"test_{name}" for name in options.modules or MODULES]
    with ThreadPoolExecutor(options.processes) as pool:
        for text in pool.map(of_module, names):
            print(text, flush=True)


if __name__ == "__main__":
    main()
