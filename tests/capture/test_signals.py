"""A break reaches whoever records it, through all code of ours that tries something and goes on where that fails."""

import ast
from pathlib import Path

import dynascope
import pytest
import torch
from dynascope import capture
from dynascope.capture import numpy_numbers, session
from dynascope.capture.calls import dispatch, pure, state_reads
from dynascope.capture.reasons import DataDependentValue
from dynascope.capture.signals import Break


def breaks(*_: object) -> None:
    raise Break(DataDependentValue("x", "item"))


def test_a_question_asked_on_the_way_is_no_failure_of_what_is_computed(monkeypatch):
    with pytest.raises(Break):
        pure.compute(None, breaks, ())
    monkeypatch.setattr(numpy_numbers, "number_of", breaks)
    with pytest.raises(Break):
        dispatch.by_numpy(None, max, (), {})
    with pytest.raises(Break) as broken:
        state_reads.state_read(None, breaks, [])
    assert isinstance(broken.value.reason, DataDependentValue)  # and not that the function is foreign


def test_nothing_in_capture_catches_what_it_does_not_name():
    for path in sorted(Path(capture.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                caught = "" if node.type is None else ast.unparse(node.type)
                assert caught and "BaseException" not in caught, f"{path.name}:{node.lineno}"


def test_a_break_that_leaves_capture_is_a_failure_of_ours_and_not_of_the_program(monkeypatch):
    def program(x):
        return x + 1

    compiled = dynascope.compile(program)
    monkeypatch.setattr(session, "run", breaks)
    with dynascope.expected("engine-error"):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
