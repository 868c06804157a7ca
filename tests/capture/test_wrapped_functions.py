"""`functools.wraps` of functions that are made inside: whatever the version of CPython copies."""

import functools
import sys

import pytest
import torch
from harness import compiled


def plain(x):
    def doubled(y: int) -> int:
        """Twice."""
        return y * 2

    @functools.wraps(doubled)
    def wrapper(y):
        return doubled(y) + 1

    return wrapper(x), wrapper.__name__ == "doubled", len(wrapper.__doc__), wrapper.__wrapped__(x)


def by_decorator(x):
    def decorated(function):
        @functools.wraps(function)
        def inner(*arguments, **keywords):
            return function(*arguments, **keywords) + 1

        return inner

    @decorated
    def scaled(y, *, by=2.0):
        return y * by

    return scaled(x), scaled(x, by=3.0), getattr(scaled, "__type_params__", ()) == ()


def given_back(x):
    def doubled(y):
        return y * 2

    @functools.wraps(doubled)
    def wrapper(y):
        return doubled(y) + 1

    return x + 1, wrapper


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython 3.14 copies the function that evaluates annotations")
@pytest.mark.parametrize("program", [plain, by_decorator, given_back])
def test_is_one_graph(program):
    function, x = compiled(program), torch.ones(3)
    ours, theirs = function(x), program(x)
    if program is given_back:
        found, wanted = ours[1], theirs[1]
        assert (found.__name__, getattr(found, "__type_params__", ())) == (wanted.__name__, ())
        ours, theirs = (ours[0], found(x)), (theirs[0], wanted(x))
    torch.testing.assert_close(ours, theirs)
    assert function.compilation.codes == [] and not function.refused
