"""`contextvars.ContextVar` in compiled functions: asked again at each call, set and reset inside."""

import contextvars

import dynascope
import pytest
import torch
from dynascope.guards.state_calls import ContextHolds

SCALE = contextvars.ContextVar("SCALE", default=2.0)
EMPTY = contextvars.ContextVar("EMPTY")
PLACE = contextvars.ContextVar("PLACE", default=())


class scaled:
    def __init__(self, scale):
        self.scale = scale

    def __enter__(self):
        self.token = SCALE.set(self.scale)

    def __exit__(self, *_):
        SCALE.reset(self.token)


def test_what_it_holds_is_asked_at_each_call(compilations):
    compiled = dynascope.compile(lambda x: x * SCALE.get())
    x = torch.ones(3)
    assert compiled(x).tolist() == compiled(x).tolist() == [2.0] * 3
    for scale in (3.0, 3.0, 2.0):
        token = SCALE.set(scale)
        assert compiled(x).tolist() == [scale] * 3
        SCALE.reset(token)
    assert len(compilations) == 2
    assert contextvars.Context().run(lambda: compiled(x).tolist()) == [2.0] * 3


def nested(x):
    before = SCALE.get()
    with scaled(5.0):
        y = x * SCALE.get()
        with scaled(7.0):
            y = y + SCALE.get()
        y = y * SCALE.get()
    return y, before, SCALE.get()


def test_what_is_set_inside_is_set_back(compilations):
    compiled, x = dynascope.compile(nested, fullgraph=True), torch.ones(3)
    for scale in (2.0, 4.0):
        token = SCALE.set(scale)
        y, before, after = compiled(x)
        assert y.tolist() == [60.0] * 3 and (before, after, SCALE.get()) == (scale,) * 3
        SCALE.reset(token)
    assert len(compilations) == 2


def set_at_the_end(x):
    SCALE.set(9.0)
    return x + 1


def token_given(x):
    return x + 1, SCALE.set(9.0)


def broken_inside(x):
    with scaled(5.0):
        y = x * SCALE.get()
        if y.sum() > 100:
            y = y + 1
        return y * SCALE.get()


@pytest.mark.may_break
@pytest.mark.parametrize("function", [set_at_the_end, token_given, broken_inside])
def test_where_it_is_set_for_longer_python_sets_it(function):
    def play(function):
        found = [function(torch.ones(3)), SCALE.get()]
        if isinstance(found[0], tuple):
            result, token = found[0]
            SCALE.reset(token)
            found = [result, SCALE.get()]
        return found

    def alone(function):
        return contextvars.copy_context().run(play, function)

    (eager, left), compiled = alone(function), dynascope.compile(function)
    for _ in range(3):
        found, kept = alone(compiled)
        assert torch.equal(found, eager) and kept == left


@torch.library.custom_op("context_variables_test::scale", mutates_args=())
def scale_by_what_is_set(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE.get()


@scale_by_what_is_set.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.mark.may_break
def test_what_runs_meanwhile_finds_it():
    def function(x):
        with scaled(5.0):
            return scale_by_what_is_set(x) + 1

    compiled = dynascope.compile(function)
    assert compiled(torch.ones(3)).tolist() == compiled(torch.ones(3)).tolist() == [6.0] * 3


@pytest.mark.may_break
@pytest.mark.parametrize("function", [lambda x: x * EMPTY.get(3.0), lambda x: x + len(PLACE.get()), lambda x: (x + 1, EMPTY.get())[0]])
def test_what_holds_nothing_or_no_constant(function):
    def outcome(function):
        try:
            return function(torch.ones(3)).tolist()
        except LookupError as error:
            return str(error)

    compiled = dynascope.compile(function)
    assert outcome(compiled) == outcome(function)
    token, other = EMPTY.set(4.0), PLACE.set((1,))
    assert outcome(compiled) == outcome(function)
    EMPTY.reset(token)
    PLACE.reset(other)
    assert outcome(compiled) == outcome(function)


def test_what_it_holds_is_said():
    holds = ContextHolds(SCALE, 2.0)
    assert holds.holds() and holds.check() == "the context variable `SCALE` holds 2.0"
    unset = ContextHolds(EMPTY, 4.0)
    assert not unset.holds() and unset.failure("") == "the context variable `EMPTY` holds nothing, and held 4.0"
