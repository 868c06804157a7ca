"""What autograd keeps for its backward pass and the program then changes in place: inside one graph it is known as it was.

Eager raises for these ("modified by an inplace operation"), so finite differences are what is compared with.
"""

import dynascope
import pytest
import torch

X = torch.linspace(0.1, 1, 8, dtype=torch.float64)


def result_kept(x):
    y = x.exp()
    y.add_(1)
    return y.sum()


def operand_kept(x):
    y = x.sin()
    z = y * y
    y.mul_(2)
    return z.sum()


def written_without_gradients(x):
    y = x.exp()
    with torch.no_grad():
        y[1:].add_(1)
    return (y * x).sum()


def written_through_detach(x):
    y = x.sin()
    z = y * y
    y.detach().view(-1).mul_(2)
    return z.sum()


def part_kept_and_whole_written(x):
    y = x * 1
    part = y[1:5]
    exponent = part.exp()
    product = part * exponent * y[:4]
    y.mul_(2)
    exponent[0] = 5
    return product.sum()


def written_twice(x):
    y = x.sigmoid().exp_()
    z = y.tanh()
    y.mul_(y)
    y[0] = 3
    return (z * z).sum()


PROGRAMS = [
    result_kept, operand_kept, written_without_gradients, written_through_detach, part_kept_and_whole_written, written_twice,
]  # fmt: skip


def numerical(program, x):
    steps = torch.eye(len(x), dtype=x.dtype) * 1e-6
    with torch.no_grad():
        return torch.stack([(program(x + step) - program(x - step)) / 2e-6 for step in steps])


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_gradient_is_that_of_what_was_kept(program, dynamic):
    function = dynascope.compile(program, dynamic=dynamic)
    for count in (8, 6, 7):
        x = X[:count].clone().requires_grad_()
        result = function(x)
        torch.testing.assert_close(result.detach(), program(X[:count]))
        result.backward()
        torch.testing.assert_close(x.grad, numerical(program, X[:count]), rtol=1e-5, atol=1e-6)


def test_an_input_is_kept_as_it_came():
    @dynascope.compile
    def program(x):
        z = x * x * x
        with torch.no_grad():
            x[1:].zero_()
        return z.sum()

    x = X.clone().requires_grad_()
    program(x).backward()
    torch.testing.assert_close(x.grad, 3 * X * X)
    assert torch.equal(x.detach()[1:], torch.zeros(7, dtype=X.dtype))


def test_what_is_written_through_data_counts_no_version():
    def program(x):
        y = x.exp()
        y.data.mul_(2)
        return y.sum()

    ours, theirs = (X.clone().requires_grad_() for _ in range(2))
    dynascope.compile(program)(ours).backward()
    program(theirs).backward()
    assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("sizes", [(1, 3), (3, 1)])
def test_a_copy_that_is_kept_of_what_repeats_is_there_once(sizes):
    """And is laid out as what it was made of: of two elements in one place one alone is written."""

    def program(x):
        return torch.atan(x.repeat_interleave(2, 0))

    def run(function):
        leaf = torch.linspace(-1, 1, 3).view(sizes).requires_grad_()
        x = leaf.expand(3, 3)
        result = function(x)
        result.sum().backward()
        return result, leaf.grad

    torch.testing.assert_close(run(dynascope.compile(program)), run(program))
