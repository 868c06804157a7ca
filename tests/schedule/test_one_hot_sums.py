"""A row with one element that is not zero is not summed up: the sum is that element, where the row has it."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.loops.lower import lower
from dynascope.loops.nodes import Reduce
from dynascope.schedule.fusion import fuse
from recording import record


def reductions(function, *inputs) -> int:
    steps = fuse(lower(record(function, list(inputs)))).steps
    return sum(isinstance(operation, Reduce) for step in steps for operation in step.body)


def one_hot(at, value, columns=7):
    return torch.where(torch.arange(columns) == at[:, None], value[:, None], 0.0)


AT, VALUE = torch.tensor([0, 6, 3, -1, 7, -100]), torch.tensor([2.0, -3.0, float("inf"), 5.0, float("nan"), -0.0])


def check(function, *inputs):
    found, eager = dynascope.compile(function)(*inputs), function(*inputs)
    torch.testing.assert_close(found, eager, equal_nan=True)
    assert torch.equal(found.signbit(), eager.signbit())


def test_the_sum_is_the_element():
    function = lambda at, value: one_hot(at, value).sum(1)  # noqa: E731
    assert reductions(function, AT, VALUE) == 0
    check(function, AT, VALUE)
    check(function, torch.tensor([2, 2, 2]), torch.tensor([-0.0, 1.5, float("nan")]))


def test_with_conditions_of_the_row_and_beside_the_elements():
    def function(at, value, x):
        chosen = torch.where((torch.arange(7) == at[:, None]) & (at != 3)[:, None], value[:, None], 0.0)
        return chosen - x.exp() * chosen.sum(1, keepdim=True)

    x = torch.randn(6, 7)
    assert reductions(function, AT, VALUE, x) == 0
    check(function, AT, VALUE.nan_to_num(1.0, 2.0), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda at, value: torch.where(torch.arange(7) <= at[:, None], value[:, None], 0.0).sum(1),
        lambda at, value: torch.where(torch.arange(7) == at[:, None], value[:, None], 1.0).sum(1),
        lambda at, value: torch.where(torch.arange(7) == at[:, None], torch.arange(7) * value[:, None], 0.0).sum(1),
        lambda at, value: torch.where((torch.arange(7) == at[:, None]) & (torch.arange(7) > 2), value[:, None], 0.0).sum(1),
        lambda at, value: one_hot(at, value).amax(1),
        lambda at, value: torch.where(2 * torch.arange(7) == at[:, None], value[:, None], 0.0).sum(1),
    ],
    ids=["several", "not zero", "differ", "of the element", "largest", "every second"],
)
def test_other_rows_are_summed_up(function):
    assert reductions(function, AT, VALUE) == 1
    check(function, AT, VALUE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_gradient_of_a_loss_over_classes(dtype):
    logits, target = torch.randn(5, 40, dtype=dtype), torch.tensor([3, -100, 39, 0, 7])
    gradients = []
    for function in (F.cross_entropy, dynascope.compile(F.cross_entropy)):
        x = logits.clone().requires_grad_()
        function(x, target).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=0.02, atol=1e-6 if dtype is torch.float32 else 1e-3)


def test_classes_that_vary_in_number():
    compiled = dynascope.compile(F.cross_entropy, dynamic=True)
    for classes in (5, 9, 4):
        x = torch.randn(3, classes, requires_grad=True)
        compiled(x, torch.tensor([0, classes - 1, 2])).backward()
        other = x.detach().clone().requires_grad_()
        F.cross_entropy(other, torch.tensor([0, classes - 1, 2])).backward()
        torch.testing.assert_close(x.grad, other.grad)
