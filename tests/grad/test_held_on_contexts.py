"""What a custom function keeps on its context by an attribute: its backward pass reads what it holds then, as in eager."""

import dynascope
import pytest
import torch

pytestmark = pytest.mark.compiler


class KeepsArgument(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.x = x
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient * ctx.x


class KeepsView(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.row = x[0]
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient * ctx.row


class KeepsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.result = torch.tanh(x * weight)
        return ctx.result, x + weight

    @staticmethod
    def backward(ctx, gradient, other):
        return None, gradient * ctx.result + other


def gradient_of(function, call, second=False):
    torch.manual_seed(0)
    x, weight = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
    results = call(function.apply)(x, weight)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum(result.sum() for result in results)
    if function is KeepsResult:
        results[0].detach().mul_(3)
    else:
        x.add_(1)
    if second:
        (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
        gradient.sum().backward()
    else:
        loss.backward()
    return weight.grad


def compiled(apply):
    return dynascope.compile(lambda x, weight: apply(x, weight))


@pytest.mark.parametrize("function", [KeepsArgument, KeepsView, KeepsResult], ids=lambda each: each.__name__)
def test_written_after_the_call(function):
    torch.testing.assert_close(gradient_of(function, compiled), gradient_of(function, lambda apply: apply))


def test_a_second_derivative_after_it_was_written_raises():
    with pytest.raises(RuntimeError, match="a result that a custom function keeps as an attribute was changed"):
        gradient_of(KeepsResult, compiled, second=True)


@pytest.mark.expects("output-alias")
def test_written_inside_and_after():
    def f(x, weight):
        result = KeepsArgument.apply(x, weight)
        x.add_(1)
        return result

    def gradient(call):
        x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
        result = call(x, weight)
        x.add_(1)
        result.sum().backward()
        return weight.grad

    assert torch.equal(gradient(dynascope.compile(f)), gradient(f))


TABLE = torch.ones(3)


class ReadsByName(torch.autograd.Function):
    """Both passes compute the same of it, where it is not written between."""

    @staticmethod
    def forward(ctx, x):
        return x * TABLE.exp() + TABLE.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * TABLE.exp()


class KeepsAndComputes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.x, ctx.sine = x, x.sin()
        return x.sin() * weight.exp()

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient * ctx.x.sin() + ctx.sine


OF_WHAT_IS_HELD = {
    "a name": lambda x, weight: ReadsByName.apply(weight) * 2,
    "a name, and what is computed again": lambda x, weight: (ReadsByName.apply(weight).sin() * weight).exp(),
    "an attribute": lambda x, weight: KeepsAndComputes.apply(x, weight).sin(),
    "two results": lambda x, weight: KeepsAndComputes.apply(x, ReadsByName.apply(weight).cos()).sin() + weight.exp(),
}


@pytest.mark.parametrize("only_one", [False, True])
@pytest.mark.parametrize("program", OF_WHAT_IS_HELD.values(), ids=OF_WHAT_IS_HELD)
def test_what_the_passes_compute_of_it_are_two_values(program, only_one):
    def gradient(call):
        TABLE.fill_(0.5)
        x, weight = torch.linspace(0, 1, 3), torch.linspace(1, 2, 3).requires_grad_()
        first, second = call(lambda x, weight: (program(x, weight), weight.cos()))(x, weight)
        TABLE.add_(1)
        x.add_(1)
        (first.sum() if only_one else (first * second).sum()).backward()
        return weight.grad

    torch.testing.assert_close(gradient(dynascope.compile), gradient(lambda function: function))
