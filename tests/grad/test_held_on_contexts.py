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
