"""Interpreters whose frames are not known (newer than all, or free-threaded): whole functions are served, and nothing crashes.

The program runs in a process of its own. On an interpreter whose frames are known, it says before the engine is imported that
its build has no GIL, which is what a free-threaded build says.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dynascope.frame import hook
from dynascope.frame.versions import FREE_THREADED, KNOWS_FRAMES

pytestmark = pytest.mark.expects_in_children("whole-functions-only", "print-call")

ENGINE = Path(__file__).parent.parent.parent / "engine"

START = """
import json, sysconfig, sys, threading
if {pretends}:
    sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
import torch
import dynascope
torch.manual_seed(0)
has_lock = getattr(sys, "_is_gil_enabled", lambda: True)
had_lock = has_lock()
"""

PROGRAM = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.second = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, *, scale=1.0):
        self.calls += 1
        return x + self.second(torch.relu(self.first(self.norm(x)))) * scale

def loops(x, rows):
    total = [x * 0]
    for weight, row in enumerate(rows):
        total.append(sum(item for item in row if item > 1) * x + weight)
    with torch.no_grad():
        best = max(total, key=lambda t: float(t.sum().shape == ()))
    return [t for t in total], {"best": best, "all": all(len(r) < 4 for r in rows)}

def breaks(x):
    y = x + 1
    print("inside")
    return y * 2

def raises(x):
    if x.shape[0] == 4:
        raise KeyError("four")
    return x

def flat(thing):
    return thing.tolist() if isinstance(thing, torch.Tensor) else [flat(t) for t in thing] if isinstance(
        thing, (list, tuple)) else {k: flat(v) for k, v in thing.items()} if isinstance(thing, dict) else thing

def outcome(function, *arguments, **keywords):
    try:
        return flat(function(*arguments, **keywords))
    except Exception as error:
        return repr(error)

x = torch.randn(4, 8)
module = Block()
compiled = dynascope.compile(module)
same, calls = [], []
for scale in (1.0, 2.0, 3.0):
    plain = [t.detach() for t in torch.autograd.grad(module(x, scale=scale).sum(), list(module.parameters()))]
    again = torch.autograd.grad(compiled(x, scale=scale).sum(), list(module.parameters()))
    same.append(all(torch.allclose(a, b, atol=1e-5) for a, b in zip(plain, again)))
for function, arguments in ((loops, (x, [[1, 2], [3], []])), (breaks, (x,)), (raises, (x,)), (raises, (x[:2],))):
    made = dynascope.compile(function)
    for _ in range(2):
        same.append(outcome(made, *arguments) == outcome(function, *arguments))

shared = dynascope.compile(lambda x, n: x * n + n)
found = []
def call(n):
    found.append(torch.equal(shared(x, n), x * n + n))
threads = [threading.Thread(target=call, args=(n % 3,)) for n in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()

sysconfig.get_config_vars()["Py_GIL_DISABLED"] = int(not has_lock())  # torch asks too, which builds it serves
read = [torch.compile(compiled, backend="eager"), torch.compile(lambda x: compiled(x), backend="eager", fullgraph=True)]
same.extend(torch.allclose(each(x), module(x)) for each in read)

explanation, broken = dynascope.explain(loops, x, [[1, 2]]), dynascope.explain(breaks, x)
print(json.dumps({
    "same": same, "lock": [had_lock, has_lock()], "threads": found, "calls": int(module.calls),
    "graphs": [explanation.graph_count, broken.graph_count],
    "notes": [[note.code, note.message] for note in explanation.report.notes],
    "reason": [broken.report.functions[0].entries[0].reason.code, broken.report.functions[0].entries[0].reason.message],
}))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    file = tmp_path_factory.mktemp("program") / "program.py"
    file.write_text(START.format(pretends=KNOWS_FRAMES) + PROGRAM)
    command = [sys.executable, str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ENGINE)})
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1])


def test_results_are_eagers(answer):
    assert all(answer["same"]) and all(answer["threads"]) and len(answer["threads"]) == 12
    assert answer["calls"] == 10


def test_whole_functions_are_compiled_and_others_say_why_not(answer):
    assert answer["graphs"] == [1, 0]
    code, message = answer["reason"]
    assert code == "whole-functions-only" and 'print("inside")' in message


def test_the_report_says_what_serves_the_calls(answer):
    (message,) = (message for code, message in answer["notes"] if code == "hook-unfit")
    assert ("without" in message) == (KNOWS_FRAMES or FREE_THREADED)


def test_what_is_compiled_takes_no_lock_that_the_program_was_without(answer):
    before, after = answer["lock"]
    assert before == after


@pytest.mark.skipif(KNOWS_FRAMES, reason="an interpreter whose frames are known")
def test_the_fallback_serves_here():
    assert not hook.is_native() and hook.note().code == "hook-unfit"
