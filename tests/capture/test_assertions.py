"""An `assert` on what tensors hold is part of the graph; where it does not hold Python raises it, and nothing else was done."""

import dynascope
import pytest
import torch
from asserting_programs import both, by_numbers, caught, make_counting, make_step
from torch import nn


def outcomes(function, calls):
    given = []
    for arguments in calls:
        try:
            given.append(function(*arguments))
        except AssertionError as error:
            given.append(str(error))
    return given


def as_written(function):
    return function


def whole(function):
    return dynascope.compile(function, fullgraph=True)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_training_step_that_is_checked(backend):
    def trained(wrap):
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        step = wrap(make_step(net, torch.optim.SGD(net.parameters(), 0.1)))
        batches = [torch.full((3, 4), value) for value in (1.0, 200.0, float("nan"), 2.0)]
        return outcomes(step, [(x,) for x in batches]), [parameter.detach() for parameter in net.parameters()]

    expected, found = trained(as_written), trained(lambda step: dynascope.compile(step, backend=backend))
    for given, wanted in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
        assert given == wanted if isinstance(wanted, str) else torch.allclose(given, wanted)
    assert found[0][1:3] == ["too large: 200.0", "too large: nan"]


def test_what_was_done_before_is_done_once():
    def run(wrap):
        torch.manual_seed(0)
        log, total = [], torch.zeros(3)
        given = outcomes(wrap(make_counting(log, total)), [(torch.ones(3),), (-torch.ones(3),), (torch.ones(3),)])
        return given[::2], given[1], log, total

    (given, error, log, total), expected = run(whole), run(as_written)
    torch.testing.assert_close((given, total), (expected[0], expected[3]))
    assert (error, log) == expected[1:3]


def test_numbers_that_only_the_run_knows():
    calls = [(torch.full((3,), value),) for value in (1.0, 100.0, -1.0, 3.0)]
    given, expected = outcomes(dynascope.compile(by_numbers), calls), outcomes(by_numbers, calls)
    assert given[1:3] == expected[1:3] == ["big", ""]
    torch.testing.assert_close(given[::3], expected[::3])


def test_two_in_one():
    calls = [(torch.full((3,), value),) for value in (1.0, -1.0, float("inf"), 3.0)]
    given, expected = outcomes(whole(both), calls), outcomes(both, calls)
    assert given[1:3] == expected[1:3] == ["positive"] * 2
    torch.testing.assert_close(given[::3], expected[::3])


@pytest.mark.expects("data-dependent-branch")
def test_one_that_the_program_catches_decides():
    calls = [(torch.ones(3),), (-torch.ones(3),)]
    torch.testing.assert_close(outcomes(dynascope.compile(caught), calls), outcomes(caught, calls))


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_an_error_of_the_program_s_own(backend):
    """Checked before and after something is written; the words tell what only the run knows."""

    def step(x, total):
        if x.isnan().any() or x.isinf().any():
            raise FloatingPointError("not finite")
        total.add_(x)
        if total.max() > 5:
            raise OverflowError(f"too large: {total.max().item()}")
        return total * 2

    def run(function):
        total, given = torch.zeros(2), []
        for value in (1.0, float("nan"), 3.0, 4.0, float("inf"), -7.0):
            try:
                given.append(function(torch.full((2,), value), total).tolist())
            except (FloatingPointError, OverflowError) as error:
                given.append(repr(error))
        return given, total.tolist()

    assert run(dynascope.compile(step, fullgraph=True, backend=backend)) == run(step)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_beside_an_operator_of_the_program_s_own_nothing_runs_twice(backend):
    ran = []
    library = torch.library.Library("dynascope_assertions", "FRAGMENT")
    library.define(f"note_{backend}(Tensor x) -> Tensor")
    library.impl(f"note_{backend}", lambda x: (ran.append(x.tolist()), x * 2)[1], "CPU")
    library.impl(f"note_{backend}", torch.empty_like, "Meta")
    note = getattr(torch.ops.dynascope_assertions, f"note_{backend}")

    def step(x):
        y = note(x)
        if y.max() > 4:
            raise ValueError("large")
        return y + 1

    compiled = dynascope.compile(step, backend=backend)
    with dynascope.expected("foreign-call"):
        compiled(torch.ones(1))
        with pytest.raises(ValueError, match="large"):
            compiled(torch.ones(1) * 3)
    assert ran == [[1.0], [3.0]]
