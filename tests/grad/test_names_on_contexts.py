"""A context of autograd's takes any attribute, also by a name that its node has a method of."""

import dynascope
import pytest
import torch


@torch.library.custom_op("contexts::doubled", mutates_args=())
def doubled(x: torch.Tensor, word: str) -> torch.Tensor:
    return x * 2


def keep_name(ctx, inputs, output):
    ctx.name = inputs[1]


doubled.register_fake(lambda x, word: torch.empty_like(x))
doubled.register_autograd(lambda ctx, tangent: (tangent * len(ctx.name), None), setup_context=keep_name)


@pytest.mark.compiler
def test_a_name_of_the_programs_own():
    def f(x):
        y = doubled(x, "abc")
        return y, y * y

    x = torch.ones(4, requires_grad=True)
    y, square = dynascope.compile(f)(x)
    (y.sum() + square.sum()).backward()
    assert torch.equal(x.grad, torch.full((4,), 15.0))
