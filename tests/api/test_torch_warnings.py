"""What torch's own functions warn of: as often as in eager where its operators run, once where kernels took their place."""

from __future__ import annotations

import warnings

import dynascope
import pytest
import torch
import torch.nn.functional as F

X = torch.tensor([1.0, 2.0, 3.0])


def upsampled(x):
    return F.upsample(x[None, None], scale_factor=2)


def given(function, calls=2, action="always"):
    """What each call warns of, and the line that it is said of."""
    found = []
    for _ in range(calls):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter(action)
            function(X)
        found.append([(str(each.message)[:24], each.filename, each.lineno) for each in seen])
    return found


def test_operators_warn_at_each_call():
    counts = [[len(call) for call in given(f)] for f in (upsampled, dynascope.compile(upsampled, backend="eager"))]
    assert counts[0] == counts[1] == [1, 1]


@pytest.mark.compiler
def test_kernels_were_warned_of_once_at_the_program_s_line():
    assert given(dynascope.compile(upsampled)) == [given(upsampled, 1)[0], []]


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
def test_a_warning_that_is_an_error_is_the_program_s(backend):
    def f(x, log):
        log.append(1)
        x = F.upsample(x[None, None], scale_factor=2)
        log.append(2)
        return x

    log, compiled = [], dynascope.compile(f, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="upsample"):
            compiled(X, log)
    assert log == [1]


def test_what_was_said_before_a_break_is_said_once():
    """The rest of the function is compiled on its own, and warns of nothing again."""

    def f(x):
        y = upsampled(x)
        print(end="")
        return y * 2

    with dynascope.expected("print-call"):
        assert [len(call) for call in given(dynascope.compile(f, backend="eager"))] == [1, 1]


def test_the_program_s_own_warning_is_shown_once_though_functions_are_compiled_between():
    """Python shows a warning of a line again when somebody has changed the filters meanwhile."""
    compiled = dynascope.compile(lambda x: torch.relu(x) * 2 + 1, dynamic=False)

    def step(size):
        warnings.warn("the program's own", stacklevel=1)
        return compiled(torch.ones(size, requires_grad=True))

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for size in (2, 3, 4):
            step(size).sum().backward()
    assert [str(each.message) for each in seen] == ["the program's own"]


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
def test_a_filter_that_makes_errors_later_raises_in_the_program(backend):
    def program(x):
        try:
            return F.softmax(x), 0
        except UserWarning as warning:
            return x, str(warning)

    compiled = dynascope.compile(program, backend=backend)
    for action in ("ignore", "error", "ignore", "error"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            mine, theirs = compiled(X), program(X)
        torch.testing.assert_close(mine[0], theirs[0])
        assert mine[1] == theirs[1] and bool(mine[1]) == (action == "error")


def test_numbers_that_are_only_tried_warn_of_nothing():
    """Which numbers a call takes is asked with ones that no type holds."""
    compiled = dynascope.compile(lambda x, correction: x.var(0, correction=correction), dynamic=True)
    x = torch.randn(5, 3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for correction in (2, 3, 2.5):
            assert torch.allclose(compiled(x, correction), x.var(0, correction=correction))
    assert not [each for each in seen if "degrees of freedom" in str(each.message)]
