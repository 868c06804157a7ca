"""While a debugger looks on, compiled functions run as they were written: it stops at their lines, and in what they call."""

import subprocess
import sys

import dynascope
import pytest
import torch
from dynascope import recording
from dynascope.frame import hook


def helper(x):
    y = x * 2
    return y + 1


def step(x):
    z = helper(x)
    return z.sum()


def lines_of(code):
    return {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}


@pytest.fixture
def traced():
    """A debugger as pdb is one."""
    lines = set()

    def trace(frame, event, _):
        if event == "line":
            lines.add(frame.f_lineno)
        return trace if frame.f_code.co_filename == __file__ else None

    def run(function, *arguments):
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return function(*arguments)
        finally:
            sys.settrace(before)

    yield lines, run


@pytest.fixture
def monitored():
    """One that looks through `sys.monitoring`, as debugpy does, and has breakpoints in one function."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        pytest.skip("since CPython 3.12")
    lines, tool = set(), monitoring.DEBUGGER_ID

    def run(function, *arguments):
        monitoring.use_tool_id(tool, "tests")
        monitoring.register_callback(tool, monitoring.events.LINE, lambda code, line: lines.add(line))
        monitoring.set_local_events(tool, helper.__code__, monitoring.events.LINE)
        try:
            return function(*arguments)
        finally:
            monitoring.set_local_events(tool, helper.__code__, 0)
            monitoring.register_callback(tool, monitoring.events.LINE, None)
            monitoring.free_tool_id(tool)

    yield lines, run


@pytest.mark.parametrize("debugger", ["traced", "monitored"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_it_stops_in_functions_that_are_inlined(debugger, is_compiled, request):
    lines, run = request.getfixturevalue(debugger)
    compiled = dynascope.compile(step)
    x = torch.ones(3)
    if is_compiled:
        compiled(x)
    before = hook.followed_note()
    assert run(compiled, x) == 9
    assert lines >= lines_of(helper.__code__)
    after = hook.followed_note()
    assert after is not None and after.code == "followed-by-debugger" and after != before
    lines.clear()
    assert compiled(x) == 9
    assert hook.followed_note() == after and not lines


PROGRAM = """\
import sys
sys.settrace(lambda *_: None)
import torch

@torch.compile
def step(x):
    return x + 1

step(torch.ones(2))
"""


def test_the_report_says_why_nothing_was_compiled(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "dynascope", "run", str(file)], capture_output=True, text=True, timeout=120, check=True)
    told = " ".join(done.stderr.split())
    assert "1 call of functions to be compiled ran as written" in told
    assert "Nothing was compiled: a debugger follows the program" in told
    assert "hook" not in told


def test_a_report_counts_the_calls_of_its_own_time(traced):
    """One that begins when nobody looks on any more says nothing of a debugger."""
    _, run = traced
    compiled, x = dynascope.compile(step), torch.ones(3)
    earlier = recording.Recorder()
    run(compiled, x)
    later = recording.Recorder()
    compiled(x)
    assert [note.code for note in earlier.report().notes] == ["followed-by-debugger"]
    assert not later.report().notes
