"""Decorators of torch's around functions of the user's, and methods that remember what they said."""

import functools
import logging

import dynascope
import torch
from harness import compiled

X = torch.arange(1.0, 5.0)


@torch.no_grad()
def halved(x):
    y = x / 2
    if y.sum() > 3:
        y = y + 1
    return y.sin()


def around(x):
    return halved(x + 1) * x, torch.is_grad_enabled()


def test_a_break_below_a_decorator_is_inside_it():
    dispatch = compiled(around)
    dispatch(X)
    assert dispatch.compilation.operations == [5, 2, 1], "what comes before and after the break is compiled"
    for x in (X, -X, X.clone().requires_grad_()):
        mine, theirs = dispatch(x), around(x)
        torch.testing.assert_close(mine[0], theirs[0])
        assert mine[0].requires_grad == theirs[0].requires_grad
        assert mine[1] == theirs[1]
    assert set(dispatch.compilation.codes) == {"data-dependent-branch"}


@torch.autocast("cpu", dtype=torch.bfloat16)
def multiplied(x):
    y = x @ x
    if y.sum() > 3:
        y = y + 1
    return y @ x, torch.is_autocast_enabled("cpu")


def test_a_break_below_autocast_is_inside_it():
    def program(x):
        return multiplied(x + 1), x @ x, torch.is_autocast_enabled("cpu")

    dispatch, square = compiled(program), X.repeat(4, 1)
    for x in (square, -square, square.clone().requires_grad_()):
        torch.testing.assert_close(dispatch(x), program(x))
    assert len(dispatch.compilation.operations) >= 3, "what comes before and after the break is compiled"
    assert set(dispatch.compilation.codes) == {"data-dependent-branch"}


class Telling(logging.Logger):
    @functools.lru_cache(None)  # noqa: B019
    def warning_once(self, message):
        self.warning(message)


LOGGER = Telling("dynascope.tests.telling")


def test_what_a_logger_says_once_is_no_break(caplog):
    LOGGER.addHandler(caplog.handler)

    def program(x):
        LOGGER.warning_once("look here")
        return x * 2

    call = dynascope.compile(program)
    for at in range(3):
        assert torch.equal(call(X * at), X * at * 2)
    assert [record.message for record in caplog.records] == ["look here"]


DISTANCES = (
    lambda: torch.nn.PairwiseDistance(),
    lambda: torch.nn.functional.pairwise_distance,
    lambda: lambda a, b: (a - b).square().sum(-1),
)


def test_a_function_of_torch_s_that_calls_what_it_is_given():
    x = torch.arange(12.0).view(3, 4)
    for make in DISTANCES:

        def loss(x, make=make):
            return torch.nn.functional.triplet_margin_with_distance_loss(x, x * 2, x + 1, distance_function=make())

        torch.testing.assert_close(dynascope.compile(loss, fullgraph=True, backend="eager")(x), loss(x))
