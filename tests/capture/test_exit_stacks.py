"""Contexts on a stack (`contextlib.ExitStack`), which asks when it is left whether an exception is handled."""

import contextlib
import sys

import dynascope
import pytest
import torch
from dynascope import compile
from harness import graphs_of

X = torch.ones(3)


@contextlib.contextmanager
def noted(said, name):
    said.append(("in", name))
    try:
        yield len(name)
    finally:
        said.append(("out", name))


def scaled(x, names, said):
    with contextlib.ExitStack() as stack:
        stack.callback(said.append, "last")
        for name in names:
            x = x * stack.enter_context(noted(said, name))
        if len(names) > 1:
            stack.enter_context(torch.no_grad())
        x = x + 1
    return x.sum(), torch.is_grad_enabled()


@pytest.mark.parametrize("names", [("ab",), ("ab", "abc"), ()])
def test_it_is_one_graph(names):
    compiled, made = graphs_of(scaled, fullgraph=True)
    expected, found = [], []
    assert compiled(X, names, found) == scaled(X, names, expected)
    assert found == expected and len(made) == 1


@pytest.mark.parametrize("kind", [lambda: sys.exc_info()[0], lambda: sys.exception() and type(sys.exception())])
def test_a_caller_that_handles_an_exception_is_asked(kind):
    """What is handled around the call is seen inside."""

    def asking(x):
        return x + 1, kind()

    compiled = compile(asking)
    assert compiled(X)[1] is None
    try:
        raise KeyError("handled")
    except KeyError:
        with dynascope.expected("foreign-call"):
            assert compiled(X)[1] is KeyError
            assert compiled(X)[1] is KeyError
    assert compiled(X)[1] is None


def test_in_an_except_python_answers():
    def asking(x):
        try:
            raise ValueError("inside")
        except ValueError:
            return x * 2, sys.exc_info()[0]

    compiled = compile(asking)
    with dynascope.expected("foreign-call"):
        for _ in range(2):
            found, kind = compiled(X)
            assert torch.equal(found, X * 2) and kind is ValueError


def test_an_exception_leaves_all_of_them():
    def raising(x, said):
        with contextlib.suppress(KeyError), contextlib.ExitStack() as stack:
            stack.enter_context(noted(said, "a"))
            stack.enter_context(noted(said, "b"))
            raise KeyError("k")
        return x + len(said)

    expected, found = [], []
    with dynascope.expected("foreign-call"):
        assert torch.equal(compile(raising)(X, found), raising(X, expected)) and found == expected
