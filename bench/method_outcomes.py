"""Test methods of others, each compiled whole: is the outcome that of the method as it was written?

    python bench/some_suite.py --here NAME      runs `compare(cases, ...)` in a process of its own
    for text in in_processes(__file__, names, arguments, processes): print(text)

A method passes, fails, is skipped or raises. What differs is run as written once more: a method that does not end twice the same says
nothing. A process that dies or hangs is started again behind the method that it died in, which differs by that.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from results import rows_of, write_section

Cases = Iterable[tuple[type[unittest.TestCase], list[str]]]


class Slow(BaseException):
    """A method that takes longer than it may."""


@dataclass
class Outcomes:
    """Of one module: how many methods were compared, and which of them differ (said at once)."""

    name: str
    methods: int = 0
    passing: int = 0
    """Those that pass as they are written: where an error comes at once, little was compared."""
    differing: list[str] = field(default_factory=list)
    ended: str = ""

    def differs(self, label: str, how: str, text: str) -> None:
        self.differing.append(label)
        print(f"{self.name} {label}: {how}\n    " + text.replace("\n", "\n    ").rstrip(), flush=True)

    def __str__(self) -> str:
        return f"{self.name}: {self.methods} methods ({self.passing} pass), {self.methods - len(self.differing)} as written{self.ended}"


Way = Callable[[unittest.TestCase, str], AbstractContextManager]
"""How a method of an instance is run: within the context."""


def as_written(instance: unittest.TestCase, method: str) -> AbstractContextManager:
    return contextlib.nullcontext()


def compiled(backend: str) -> Way:
    """The method itself is compiled, and what it calls is followed."""
    import dynascope

    def prepare(instance: unittest.TestCase, method: str) -> AbstractContextManager:
        function = getattr(type(instance), method)
        setattr(instance, method, dynascope.compile(function, backend=backend).__get__(instance))
        return contextlib.nullcontext()

    return prepare


def outcome(case: type[unittest.TestCase], method: str, seconds: int, way: Way = as_written) -> tuple[str, str]:
    """One word, and the end of a traceback."""
    instance = case(method)
    result = unittest.TestResult()
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    signal.alarm(seconds)
    try:
        with quiet[0], quiet[1], way(instance, method):
            instance.run(result)
    except Slow:
        return "slow", ""
    finally:
        signal.alarm(0)
    for word, entries in (("error", result.errors), ("failure", result.failures)):
        if entries:
            traceback = entries[0][1]
            return ("slow" if f"{__name__}.{Slow.__name__}" in traceback else word), traceback
    words = {"skipped": result.skipped, "unexpected success": result.unexpectedSuccesses}
    return next((word for word, entries in words.items() if entries), "passed"), ""


def cases_in(module: object, name: str) -> Cases:
    for case in list(vars(module).values()):
        if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == name:
            yield case, list(unittest.TestLoader().getTestCaseNames(case))


def a_few_of_each(case: type[unittest.TestCase], methods: Sequence[str], count: int) -> list[str]:
    """Of methods made from one function (for each type, say), so many, evenly spaced."""
    by_code = defaultdict(list)
    for method in methods:
        by_code[getattr(inspect.unwrap(getattr(case, method)), "__code__", method)].append(method)
    return [each[index * len(each) // count] for each in by_code.values() for index in range(count)] if count else list(methods)


def word_alone(word: str, traceback: str) -> str:
    return word


def word_and_line(word: str, traceback: str) -> str:
    """What a method that fails as written stands for at all: that it fails in the same line."""
    at = re.search(r'File ".*/(test_\w+\.py)", line (\d+)', traceback)
    return f"{word} in line {at[2]}" if at else word


def compare(
    cases: Cases,
    seconds: int,
    way: Way,
    after: str = "",
    plainly: Way = as_written,
    ending: Callable[[str, str], str] = word_alone,
) -> None:
    """Runs every method twice and prints a line of JSON before and after each. Those up to the method `after` are left out."""
    import dynascope

    def stop(*_: object) -> None:
        raise Slow

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    waiting = bool(after)
    for case, methods in cases:
        case.setUpClass()
        for method in dict.fromkeys(methods):
            label = f"{case.__name__}.{method}"
            if waiting:
                waiting = label != after
                continue
            _say(begins=label)
            plain = ending(*outcome(case, method, seconds, plainly))
            if plain in ("skipped", "slow"):
                continue
            _say(compiles=label)
            word, traceback = outcome(case, method, 3 * seconds, way)
            ours = ending(word, traceback)
            dynascope.reset()
            if ours != plain and ending(*outcome(case, method, seconds, plainly)) != plain:
                continue
            _say(compared=label, plain=plain, ours=ours, traceback=traceback[-2400:])
        case.tearDownClass()
    _say(finished=True)


def _say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def in_processes(script: str, names: Sequence[str], arguments: Sequence[str], processes: int, seconds: int) -> Iterator[Outcomes]:
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(lambda name: _of_module([sys.executable, script, "--here", *arguments, name], name, seconds), names)


def _of_module(command: list[str], name: str, seconds: int) -> Outcomes:
    found = Outcomes(name)
    after, finished = "", False
    while not finished:
        again = [*command, "--after", after] if after else command
        alone = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(again, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=alone) as process:
            said: list[str] = []
            listener = threading.Thread(target=lambda to=said, of=process.stderr: to.extend(of), daemon=True)
            listener.start()
            begun, compiling, finished = _listen(process, found, 6 * seconds + 60)
            listener.join(5)
        if finished:
            break
        words = "".join(said)[-1200:]
        if not begun:
            found.ended = f", ended with {process.returncode} before a method began\n{words}"
            break
        if compiling:
            found.methods += 1
            found.differs(begun, f"compiled ended the process with {process.returncode}", words)
        after = begun
    return found


def _listen(process: subprocess.Popen, found: Outcomes, patience: int) -> tuple[str, bool, bool]:
    """The method that was begun last, whether it was being compiled, and whether all have ended."""
    begun, compiling, finished = "", False, False
    silence = threading.Timer(patience, process.kill)
    silence.start()
    for line in process.stdout or ():
        silence.cancel()
        try:
            facts = json.loads(line)
        except ValueError:
            facts = {}
        if not isinstance(facts, dict):
            facts = {}
        if "begins" in facts:
            begun, compiling = facts["begins"], False
        elif "compiles" in facts:
            compiling = True
        elif "compared" in facts:
            compiling = False
            found.methods += 1
            found.passing += facts["plain"] == "passed"
            if facts["ours"] != facts["plain"]:
                found.differs(facts["compared"], f"{facts['plain']}, compiled {facts['ours']}", facts["traceback"])
        finished = finished or "finished" in facts
        silence = threading.Timer(patience, process.kill)
        silence.start()
    silence.cancel()
    return begun, compiling, finished


def write(title: str, command: str, versions: str, outcomes: Iterable[Outcomes], note: str) -> None:
    """A row for each module and version of what was run, the others as they were."""
    rows = {tuple(row[:2]): row for row in rows_of(title)}
    for found in outcomes:
        if found.methods:
            row = [found.name, versions, str(found.methods), str(found.passing), str(len(found.differing))]
            rows[found.name, versions] = row
    columns = ["module", "of", "methods", "pass as written", "end otherwise when compiled"]
    write_section(title, command, columns, sorted(rows.values()), note)
