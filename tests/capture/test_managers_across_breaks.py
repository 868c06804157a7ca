"""A break inside a `with` of the program's own `@contextmanager`: what comes behind is one graph, cleanup included, and done once."""

import contextlib

import dynascope
import pytest
import torch
from harness import recorded
from torch import nn

LOG = []


@contextlib.contextmanager
def noted(name, log):
    log.append(f"in {name}")
    try:
        yield log
    finally:
        log.append(f"out {name}")


@contextlib.contextmanager
def evaluating(module):
    was = module.training
    module.eval()
    try:
        yield module
    finally:
        module.train(was)


@contextlib.contextmanager
def scaled(weights, by):
    before = [each.clone() for each in weights]
    for each in weights:
        each.mul_(by)
    yield
    for each, old in zip(weights, before, strict=True):
        each.copy_(old)


class Scope:
    def __init__(self):
        self.depth = 0

    @contextlib.contextmanager
    def deeper(self, by):
        self.depth += by
        add = lambda: self.depth + by  # noqa: E731 (a cell that the cleanup reads)
        try:
            yield self.depth
        finally:
            self.depth = add() - 2 * by


SCOPE = Scope()
LAYERS = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
WEIGHTS = [torch.ones(3), torch.full((3,), 2.0)]


def one(x):
    with noted("a", LOG) as log:
        y = x * 2
        print(end="")
        y = y + len(log)
    return y * 3


def two(x):
    with noted("a", LOG), noted("b", LOG):
        y = x * 2
        print(end="")
        y = y + 1
    with noted("c", LOG):
        return y * 2


def breaks_twice(x):
    with noted("a", LOG):
        print(end="")
        y = x * 2
        print(end="")
        y = y + 1
    return y


def raises(x):
    try:
        with noted("a", LOG):
            y = x * 2
            print(end="")
            y = y + 1
            raise ValueError("no")
    except ValueError:
        return y * len(LOG)


def returns_inside(x):
    for at in range(3):
        with noted("a", LOG):
            x = x + at
            print(end="")
            if at == 1:
                return x * 2


def of_a_module(x):
    with evaluating(LAYERS):
        y = LAYERS(x)
        print(end="")
        y = LAYERS(y)
    return y, LAYERS.training


@torch.no_grad()
def of_weights(x):
    with scaled(WEIGHTS, 3.0):
        y = x * WEIGHTS[0]
        print(end="")
        y = y + WEIGHTS[1]
    return y * WEIGHTS[0], [each.clone() for each in WEIGHTS]


def of_a_method(x):
    with SCOPE.deeper(2) as depth:
        y = x * depth
        print(end="")
        y = y + SCOPE.depth
    return y, SCOPE.depth


def on_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(noted("a", LOG))
        stack.callback(LOG.append, "called")
        y = x * 2
        print(end="")
        y = y + 1
    return y


PROGRAMS = [one, two, breaks_twice, raises, returns_inside, of_a_module, of_weights, of_a_method, on_a_stack]


@pytest.mark.may_break
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_with_a_break_for_each_print(program):
    with recorded() as recorder:
        compiled = dynascope.compile(program, backend="eager")
        for _ in range(2):
            LOG.clear()
            found, log = compiled(torch.ones(3)), list(LOG)
            LOG.clear()
            torch.testing.assert_close(found, program(torch.ones(3)))
            assert log == LOG
    entries = [entry for function in recorder.report().functions for entry in function.entries]
    assert {entry.reason.code for entry in entries if entry.reason is not None} == {"print-call"}


@pytest.mark.expects("print-call")
def test_one_that_the_program_keeps_is_left_to_python():
    def function(x, kept):
        manager = noted("a", LOG)
        with manager:
            x = x * 2
            print(end="")
            kept.append(manager.gen)
            x = x + 1
        return x

    LOG.clear()
    kept = []
    compiled = dynascope.compile(function, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(2), kept), torch.full((2,), 3.0))
    assert LOG == ["in a", "out a"]
    assert kept[0].gi_frame is None
    kept.clear()
    assert LOG == ["in a", "out a"]


@pytest.mark.may_break
def test_a_generator_that_goes_on_is_left_to_python():
    def counted(log):
        try:
            for at in range(3):
                yield at + 0
        finally:
            log.append("end")

    def function(x):
        for at in counted(LOG):
            x = x + at
            print(end="")
            x = x * 2
        return x

    compiled = dynascope.compile(function, backend="eager")
    for _ in range(2):
        LOG.clear()
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 16.0))
        assert LOG == ["end"]


class Bound:
    """Methods that are bound already when the class gives them: from CPython 3.14 on nothing lies above them on the stack."""

    @staticmethod
    def __enter__():
        LOG.append(str(len(LOG)))
        print(end="")
        return 3

    @staticmethod
    def __exit__(*error):
        LOG.append(f"left {len(error)}")


@pytest.mark.expects("print-call")
def test_a_manager_whose_methods_are_bound_already():
    def step(x):
        y = x + 1
        with Bound() as number:
            print(end="")
            return y * number

    LOG.clear()
    expected, told = step(torch.ones(2)), list(LOG)
    LOG.clear()
    assert torch.equal(dynascope.compile(step, backend="eager")(torch.ones(2)), expected) and told == LOG
