"""Gradient and inference mode around compiled functions, and changed inside them."""

import dynascope
import pytest
import torch
from dynascope import recording

X = torch.arange(6.0).reshape(2, 3)
WEIGHT = torch.ones(3, requires_grad=True)


def reasons_of(function, *arguments):
    """The results, and the codes of everything that was not compiled."""
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        result = function(*arguments)
        report = recorder.report()
    finally:
        recording.use(before)
    entries = [entry for each in report.functions for entry in each.entries]
    return result, [note.code for note in report.notes] + [entry.reason.code for entry in entries if entry.reason]


def breaks_without_gradients(x):
    with torch.no_grad():
        first = x * WEIGHT
        print(end="")
        second = x * WEIGHT
    return first, second, x * WEIGHT


def switches_gradients_on(x):
    with torch.enable_grad():
        result = x * WEIGHT
    return result, x * WEIGHT


BREAKS = {breaks_without_gradients: ("print-call",), switches_gradients_on: ()}


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("program", BREAKS)
def test_gradients_where_eager_has_them(program, backend, mode):
    compiled = dynascope.compile(program, backend=backend)
    with mode(), dynascope.expected(*BREAKS[program]):
        for _ in range(2):
            expected, got = program(X), compiled(X)
            assert [each.requires_grad for each in got] == [each.requires_grad for each in expected]
            torch.testing.assert_close(got, expected)
            assert torch.is_grad_enabled() == (mode is torch.enable_grad)


@pytest.mark.compiler
def test_inference_mode_is_compiled():
    compiled = dynascope.compile(lambda x: (x * WEIGHT, x[0], x))
    with torch.inference_mode():
        for given in (X, X * 1):
            results, codes = reasons_of(compiled, given)
            assert codes == []
            assert [each.is_inference() for each in results] == [True, given.is_inference(), given.is_inference()]
    assert compiled(X)[0].requires_grad
