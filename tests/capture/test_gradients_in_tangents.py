"""Gradients that autograd leaves in the memory of a tangent which the program gave, and that are written there."""

import dynascope
import pytest
import torch

pytestmark = pytest.mark.may_break


def two_passes(y, a, b, tangent):
    y.backward(tangent, retain_graph=True)
    y.backward(tangent)


def tangent_written_afterwards(y, a, b, tangent):
    y.backward(tangent)
    tangent.add_(1)


def gradient_written_afterwards(y, a, b, tangent):
    y.backward(tangent)
    b.grad.mul_(3)
    print(end="")
    a.grad[0] = 7


def two_results(y, a, b, tangent):
    torch.autograd.backward([y, a * 2], [tangent, torch.ones_like(a)])
    b.grad.zero_()


RESULTS = {
    "stack": lambda a, b: torch.stack([a, b]),
    "cat": lambda a, b: torch.cat([a, b]),
    "turned": lambda a, b: torch.cat([a.t(), b.t()], 1),
    "sum, turned": lambda a, b: (a + b).t(),
    "sum": lambda a, b: a + b,
    "views": lambda a, b: torch.stack([a.view(3, 2), b.reshape(3, 2)], 1),
    "part": lambda a, b: a[0] + b[0],
}


@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("program", [two_passes, tangent_written_afterwards, gradient_written_afterwards, two_results])
def test_what_lies_in_a_tangent(program, result, has_gradient):
    def called(a, b, tangent):
        program(RESULTS[result](a, b), a, b, tangent)

    outcomes = []
    for function in (called, dynascope.compile(called, backend="eager")):
        for _ in range(2):
            a, b = torch.arange(6.0).view(2, 3).requires_grad_(), torch.ones(2, 3, requires_grad=True)
            a.grad = torch.full((2, 3), 0.5) if has_gradient else None
            tangent = torch.linspace(1, 2, RESULTS[result](a, b).numel()).view(RESULTS[result](a, b).shape)
            if result == "sum, turned":
                tangent = tangent.t().contiguous().t()
            function(a, b, tangent)
            storages = [each.untyped_storage().data_ptr() for each in (a.grad, b.grad, tangent)]
            shared = [storages.index(each) for each in storages]
            outcomes.append(([each.tolist() for each in (a.grad, b.grad, tangent)], shared))
    assert all(outcome == outcomes[0] for outcome in outcomes)
