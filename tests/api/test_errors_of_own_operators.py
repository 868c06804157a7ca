"""An operator of the program's own raises inside a graph, which cannot run again: the traceback is the program's."""

import traceback

import dynascope
import pytest
import torch


@torch.library.custom_op("errors_of_own_operators::small_only", mutates_args=())
def small_only(x: torch.Tensor) -> torch.Tensor:
    if x.abs().max() > 100:
        raise ValueError("too large")
    return x + 1


@small_only.register_fake
def _(x):
    return torch.empty_like(x)


small_only.register_autograd(lambda context, gradient: gradient)


@torch.library.custom_op("errors_of_own_operators::halves", mutates_args=())
def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if x.abs().max() > 100:
        raise ValueError("too large")
    return x / 2, x - x / 2


@halves.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x)


halves.register_autograd(lambda context, first, second: (first + second) / 2)


def inner(x):
    y = x * 2
    z = small_only(y)
    return z.sin()


def of_both(x):
    first, second = halves(x + 1)
    return first.sin() * second


def of_the_second(x):
    _, second = halves(x + 1)
    return second.sin()


def of_neither(x):
    y = x + 1
    halves(y)
    return y.sin()


def outer(x):
    a = x.cos()
    b = inner(a + 1)
    c = inner(
        x + 1,
    )
    return b * c


def places(call, x):
    with pytest.raises(ValueError, match="^too large$") as raised:
        call(x)
    own = [each for each in traceback.extract_tb(raised.value.__traceback__) if each.filename == __file__ or each.filename.startswith("<")]
    return [(each.name, each.lineno, each.line) for each in own]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["dynascope", "eager"])
def test_frames_are_the_programs(backend, requires_grad):
    compiled = dynascope.compile(outer, backend=backend)
    x = torch.ones(3, requires_grad=requires_grad)
    assert torch.allclose(compiled(x), outer(x))
    large = torch.full((3,), 1000.0, requires_grad=requires_grad)
    expected = places(outer, large)
    assert [name for name, _, _ in expected] == ["places", "outer", "inner", "small_only"]
    assert places(compiled, large) == expected


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", [of_both, of_the_second, of_neither])
def test_frames_of_an_operator_with_several_results(function, requires_grad):
    compiled = dynascope.compile(function)
    x = torch.ones(3, requires_grad=requires_grad)
    assert torch.allclose(compiled(x), function(x))
    large = torch.full((3,), 1000.0, requires_grad=requires_grad)
    expected = places(function, large)
    assert [name for name, _, _ in expected] == ["places", function.__name__, "halves"]
    assert places(compiled, large) == expected
