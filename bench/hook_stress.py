"""Run CPython's own tests with every function's frame swapped for a copy of its code.

    python bench/hook_stress.py                          the modules below, each in a process of its own
    python bench/hook_stress.py test_generators ...      only these

A module passes if it fails no test that it does not fail without the hook. Tests that look at what the hook changes by
design are named in EXCLUDED with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

MODULES = (
    "test_functools", "test_generators", "test_exceptions", "test_contextlib", "test_call", "test_coroutines",
    "test_asyncgen", "test_scope", "test_super", "test_with", "test_raise", "test_traceback",
    "test_keywordonlyarg", "test_extcall", "test_unpack_ex", "test_dict", "test_itertools",
    "test_threading_local", "test_weakref", "test_descr", "test_iter", "test_json",
)  # fmt: skip

EXCLUDED: dict[str, str] = {
    "syntax": "test_generators: asserts that g.gi_code is f.__code__; the code that runs is another",
    "test_super_deep": "test_call: 90,000 Python frames; watched, each takes C stack, and RecursionError comes first",
    "test_slots": "test_descr: counts the objects of the whole process, among them the tables made meanwhile",
}

_CHILD = """
import sys, types, unittest
sys.path.insert(0, {engine!r})
from dynascope.frame import hook
from dynascope.frame.hook import Entry, EntryTable, GuardProgram
assert hook.is_native(), hook.note()
swapped = 0

def choose(function):
    global swapped
    code = function.__code__
    slots = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    table = EntryTable(code)
    table.add(Entry(GuardProgram(slots, []), code.replace(co_stacksize=code.co_stacksize + {extra})))
    swapped += 1
    return table

if {swap}:
    hook.watch(choose)
suite = unittest.defaultTestLoader.loadTestsFromName('test.{module}')
result = unittest.TextTestRunner(verbosity=0, stream=open('/dev/null', 'w')).run(suite)
hook.unwatch()
failed = sorted(str(case.id()) for case, _ in result.failures + result.errors)
print('STRESS', result.testsRun, swapped, ' '.join(failed))
"""


def main() -> int:
    modules = sys.argv[1:] or MODULES
    return max(_stress(module) for module in modules)


def _stress(module: str) -> int:
    _, before, _ = _run(module, swap=False)
    ran, after, words = _run(module, swap=True)
    new = sorted(name for name in after - before if name.rsplit(".", 1)[-1] not in EXCLUDED)
    print(f"{module:24} {words} {'ok' if not new else 'FAILED ' + ' '.join(new)}", flush=True)
    return int(bool(new) or ran == 0)


def _run(module: str, *, swap: bool) -> tuple[int, set[str], str]:
    engine = str(Path(__file__).resolve().parent.parent / "engine")
    text = _CHILD.format(engine=engine, module=module, swap=swap, extra=3)
    command = [sys.executable, "-X", "faulthandler", "-c", text]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    line = re.search(r"^STRESS (\d+) (\d+) ?(.*)$", answer.stdout, re.MULTILINE)
    if line is None:
        print(answer.stderr[-3000:])
        return 0, {f"the process ended with {answer.returncode}"}, "crashed"
    return int(line[1]), set(line[3].split()), f"{line[1]:>5} tests, {line[2]:>5} codes swapped"


if __name__ == "__main__":
    sys.exit(main())
