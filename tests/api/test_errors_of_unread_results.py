"""What a program computes and never reads raises as in eager, at its place among the effects; written inputs are written once."""

from __future__ import annotations

import math

import dynascope
import pytest
import torch

BACKENDS = ["eager", "dynascope"]


def outcome(function, *arguments):
    log = []
    try:
        result = function(log, *arguments)
    except Exception as error:
        return type(error).__name__, str(error), log
    return repr(result), log


QUOTIENTS = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "number // tensor": lambda x, y: 7 // y,
    "number % tensor": lambda x, y: 7 % y,
    "fmod": torch.fmod,
    "remainder": lambda x, y: torch.remainder(x, other=y),
    "floor_divide": torch.floor_divide,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "in place": lambda x, y: x.clone().floor_divide_(y),
    "// 0": lambda x, y: x // (0 if y is None else 2),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", QUOTIENTS)
def test_integers_divided_by_zero(name, backend):
    def program(log, x, y):
        log.append("before")
        QUOTIENTS[name](x, y)
        log.append("after")
        return x + 1

    compiled = dynascope.compile(program, backend=backend)
    for divisors in ([2, 3], [2, 0], [1, 1]):
        y = torch.tensor(divisors)
        if name == "// 0" and 0 in divisors:
            y = None
        expected = outcome(program, torch.tensor([5, 6]), y)
        assert outcome(compiled, torch.tensor([5, 6]), y) == expected
        assert ("ZeroDivisionError" in expected) == (0 in divisors)


LOOKING = {
    "histc": (lambda x: torch.histc(x, 3), [1.0, 2.0], [1.0, math.inf]),
    "poisson": (torch.poisson, [1.0, 2.0], [-1.0, 2.0]),
    "max_unpool1d": (
        lambda x: torch.nn.functional.max_unpool1d(x[None, None], x[None, None].long(), 2), [0.0, 2.0], [0.0, 77.0]
    ),
    "multi_margin_loss": (lambda x: torch.nn.functional.multi_margin_loss(x[None], x[:1].long()), [1.0, 2.0], [9.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LOOKING)
def test_operators_that_refuse_values(name, backend):
    look, good, bad = LOOKING[name]

    def program(log, x):
        log.append("before")
        look(x)
        log.append("after")
        return x + 1

    compiled = dynascope.compile(program, backend=backend)
    for values in (good, bad, good):
        expected = outcome(program, torch.tensor(values))
        assert outcome(compiled, torch.tensor(values)) == expected
        assert ("after" in expected[-1]) == (values is good)


FUNCTIONS = {"int": int, "round": round, "floor": math.floor, "shift": lambda v: 1 << int(v)}


@pytest.mark.parametrize("read", ["never", "by Python", "by a kernel"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numbers_that_only_the_run_knows(name, read):
    def program(log, x):
        x.add_(1)
        log.append("before")
        number = FUNCTIONS[name](x.sum().item())
        log.append("after")
        y = x * 2
        x.mul_(3)
        return {"never": y, "by Python": (y, number)}[read] if read != "by a kernel" else (y, y.sum() * number)

    compiled = dynascope.compile(program)
    for values in ([1.0, 2.0], [math.inf, 1.0], [math.nan, 1.0], [1.0, 3.0]):
        here, there = torch.tensor(values), torch.tensor(values)
        assert outcome(compiled, there) == outcome(program, here)
        assert repr(there) == repr(here)  # written once, not once more when the program ran again


@pytest.mark.parametrize("is_written_over", [False, True])
def test_what_is_added_and_not_read_has_no_part_in_a_step_that_differentiates_itself(is_written_over):
    weight = torch.ones(3, requires_grad=True)

    def step(x, places):
        twice = x * 2
        energy = twice * twice * weight
        unread = torch.zeros_like(x).scatter_add_(0, places, twice.sin() * energy)
        if is_written_over:
            unread.zero_()
        (force,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        loss = force.square().sum()
        loss.backward()
        return loss.detach()

    x, places = torch.linspace(-1, 1, 3).requires_grad_(), torch.tensor([2, 0, 1])
    expected = step(x, places), x.grad, weight.grad
    x.grad = weight.grad = None
    compiled = dynascope.compile(step, fullgraph=True)
    torch.testing.assert_close((compiled(x, places), x.grad, weight.grad), expected)
    with pytest.raises(RuntimeError, match="out of bounds"):
        compiled(x, places + 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("records", [False, True])
def test_what_is_written_and_then_written_over_raises(records, backend):
    def program(log, x, places):
        log.append("before")
        sums = torch.zeros_like(x).scatter_add_(0, places, x * 2)
        log.append("after")
        sums.zero_()
        return x.detach() + 1

    compiled, x = dynascope.compile(program, backend=backend), torch.ones(3, requires_grad=records)
    for places in ([2, 0, 1], [3, 1, 2]):
        expected = outcome(program, x, torch.tensor(places))
        assert outcome(compiled, x, torch.tensor(places)) == expected
        assert ("RuntimeError" in expected) == (3 in places)
