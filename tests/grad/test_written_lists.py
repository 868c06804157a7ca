"""Operators over lists of tensors that lie in each other's memory: one after the other, as in eager."""

from __future__ import annotations

import dynascope
import pytest
import torch


def twice(a, b):
    torch._foreach_mul_([a, a], 2)
    return a + 0


def each_to_the_other(a, b):
    torch._foreach_add_([a, b], [b, a])
    return a + 0, b + 0


def parts_that_meet(a, b):
    made = a * 1
    torch._foreach_add_([made[:2], made[1:]], [b[:2], b[:2]])
    return made


def exchanged(a, b):
    torch._foreach_copy_([a, b], [b, a])
    return a + 0, b + 0


def by_numbers_of_each(a, b):
    torch._foreach_mul_([a, a, b], [2.0, 3.0, 4.0])
    torch._foreach_lerp_([a, a], [b, b], 0.5)
    torch._foreach_addcdiv_([a, a], [b, a], [b, b], 2.0)
    return a + 0


def by_one_of_them(a, b):
    torch._foreach_mul_([a, b], a.sum())
    one, other = a.sum(), b.sum()
    torch._foreach_mul_([one, other], one)
    return one, other


def clipped(a, b):
    a.grad = b.grad = torch.ones(3) * 4
    torch.nn.utils.clip_grad_norm_([a, b], 1.0)
    return a.grad + 0


@pytest.mark.may_break
@pytest.mark.parametrize("program", [twice, each_to_the_other, parts_that_meet, exchanged, by_numbers_of_each, by_one_of_them, clipped])
def test_as_eager(program):
    def run(function):
        a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])
        return function(a, b), a, b, a._version, b._version

    torch.testing.assert_close(run(dynascope.compile(program)), run(program))


def test_lists_that_share_nothing_are_computed_of_what_was_there():
    def program(parameters, steps):
        torch._foreach_add_(parameters, steps, alpha=-0.1)
        return parameters[0] * 1

    def run(function):
        parameters, steps = [torch.ones(3), torch.ones(2)], [torch.ones(3), torch.arange(2.0)]
        return function(parameters, steps), parameters

    torch.testing.assert_close(run(dynascope.compile(program, fullgraph=True)), run(program))
