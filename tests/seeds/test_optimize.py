"""Seed 003's `optimize`: callbacks for guards, `nopython`, `disable`, `skip`, `reset`, and what compiling cost as text."""

import subprocess
import sys

import dynascope
import pytest
import torch
from dynascope import recording


def foo_easy(a, b):
    return a - b


def branching(a):
    if a.sum() > 0:
        return a + 1
    return a


def test_guard_callbacks():
    exported, failed = [], []
    compiled = dynascope.optimize("eager", guard_export_fn=exported.append, guard_fail_fn=failed.append)(foo_easy)
    a = torch.ones(4)
    compiled(a, 2)
    compiled(a, 2)
    assert len(exported) == 1 and not failed
    assert any("`b` is 2" in guard.describe() for guard in exported[0]) and exported[0][0].sources is not None
    compiled(a, 3)
    assert len(exported) == 2 and len(failed) == 1
    assert "`b` is 3, and was 2" in failed[0].reason and failed[0].orig_code is foo_easy.__code__


def test_guards_are_read_as_torchs_are():
    exported = []
    dynascope.optimize("eager", guard_export_fn=exported.extend)(foo_easy)(torch.ones(4), 2)
    said = {guard.name: (guard.guard_types, guard.code_list) for guard in exported}
    assert said["b"] == (["Equals"], ["`b` is 2"]) and "a" in said


def test_what_a_callback_raises_is_the_programs():
    def refuse(_):
        raise KeyError("mine")

    exporting = dynascope.optimize("eager", guard_export_fn=refuse)(foo_easy)
    failing = dynascope.optimize("eager", guard_fail_fn=refuse)(foo_easy)
    failing(torch.ones(4), 2)
    for call in (lambda: exporting(torch.ones(4), 2), lambda: failing(torch.ones(4), 3)):
        with pytest.raises(KeyError, match="mine"):
            call()
    assert torch.equal(exporting(torch.ones(4), 2), torch.full((4,), -1.0))


def test_nopython_raises_at_a_break():
    with pytest.raises(RuntimeError, match=r"if a.sum\(\) > 0"):
        dynascope.optimize("eager", nopython=True)(branching)(torch.ones(2))


def test_disable_leaves_the_function_as_it_is():
    assert dynascope.optimize("eager", disable=True)(foo_easy) is foo_easy


@pytest.mark.expects("disabled-function")
def test_skip_keeps_out_one_function_and_not_what_it_calls():
    graphs = []

    def counting(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    inner = dynascope.compile(foo_easy, backend=counting)

    @dynascope.skip
    def skipped(a):
        return inner(a, 1) * 2

    @dynascope.disable
    def disabled(a):
        return inner(a, 1) * 2

    compiled = dynascope.compile(lambda a: skipped(a) + 1, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(2)), torch.ones(2))
    assert len(graphs) == 1 and torch.equal(disabled(torch.ones(2)), torch.zeros(2))


def test_what_is_marked_is_not_compiled_by_itself_either():
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(dynascope.skip(foo_easy), backend=lambda *_: pytest.fail("compiled"))
        assert torch.equal(compiled(torch.ones(2), 1), torch.zeros(2))
    finally:
        recording.use(before)
    (note,) = recorder.report().notes
    assert note.code == "disabled-function" and note.span is not None and note.span.file == __file__


def test_reset_forgets():
    exported = []
    compiled = dynascope.optimize("eager", guard_export_fn=exported.append)(foo_easy)
    for _ in range(2):
        compiled(torch.ones(2), 1)
        dynascope.reset()
    assert len(exported) == 2


def test_reset_is_as_before_the_first_call():
    failed, graphs = [], []

    def counting(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    compiled = dynascope.optimize(counting, guard_fail_fn=failed.append)(foo_easy)
    for number in range(dynascope.config.recompile_limit + 2):
        compiled(torch.ones(2), number)
        dynascope.reset()
    assert not failed and len(graphs) == dynascope.config.recompile_limit + 2


@pytest.mark.expects("recompile-limit")
def test_what_was_given_up_is_compiled_again_after_a_reset():
    graphs = []
    compiled = dynascope.compile(foo_easy, backend=lambda graph, _: graphs.append(graph) or graph.forward, dynamic=False)
    for number in range(dynascope.config.recompile_limit + 1):
        compiled(torch.ones(2), number)
    graphs.clear()
    dynascope.reset()
    assert torch.equal(compiled(torch.ones(2), 3), torch.full((2,), -2.0)) and len(graphs) == 1


def test_what_compiling_cost(tmp_path):
    text = dynascope.explain(foo_easy, torch.ones(2), 1).times()
    assert text.splitlines()[0].split()[:5] == ["function", "compiled", "calls", "seconds", "capture"]
    assert text.splitlines()[1].split()[:3] == ["foo_easy", "1", "1"] and "1 calls were served by 1 compilations" in text
    path = tmp_path / "program.py"
    path.write_text("import torch\nf = torch.compile(lambda x: x + 1)\nfor _ in range(3): f(torch.ones(2))\n")
    command = [sys.executable, "-m", "dynascope", "run", "--times", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "3 calls were served by 1 compilations; 0 of these served one call only." in done.stderr


def test_torchs_own_question_what_compiling_cost(tmp_path):
    """`torch._dynamo.utils.compile_times()` was empty under `dynascope run`."""
    path = tmp_path / "program.py"
    path.write_text(
        "import torch\nimport torch._dynamo.utils as utils\nf = torch.compile(lambda x: x + 1)\nfor n in (2, 3): f(torch.ones(n))\n"
        "print(utils.compile_times())\nprint(utils.compile_times(repr='csv', aggregate=True))\n"
    )
    done = subprocess.run([sys.executable, "-m", "dynascope", "run", str(path)], capture_output=True, text=True, check=True)
    title, head, *rows, last = done.stdout.splitlines()
    assert (title, head) == ("Dynascope compilation metrics:", "Function, Runtimes (s)")
    stages = {row.split(", ")[0]: list(map(float, row.split(", ")[1:])) for row in rows}
    names, values = eval(last)
    assert list(stages) == names and len(stages["capture"]) == 2 and "build" in names
    assert abs(float(values[names.index("build")]) - sum(stages["build"])) < 1e-3
