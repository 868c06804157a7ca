"""Inputs that a program changes: kernels write to them where that is safe, and the result is eager's either way."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.schedule.fusion import fuse
from dynascope.schedule.in_place import written_in_place
from recording import record

pytestmark = pytest.mark.compiler


def relu(x, y):
    x = x + 1
    x.relu_()
    return x


def add(x, y):
    x.add_(y)
    return x * 2


def column(x, y):
    x[:, 0] = 0
    return x.sum()


def swap(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def flipped(x, y):
    x.copy_(x.flip(0) + y)


def shifted(x, y):
    x[1:] = x[:-1].clone()
    return x + y


def softmax(x, y):
    x.copy_(x.softmax(-1))


def before_and_after(x, y):
    product = x @ y.t()
    x.mul_(2)
    return product, x @ y.t()


def moments(x, y):
    x.lerp_(y, 0.1)
    y.mul_(0.9).addcmul_(x, x, value=0.5)
    return (x / (y.abs().sqrt() + 1e-3)).mean(0)


def read_by_another(x, y):
    total = y + x.sum()
    x.copy_(y)
    return total


PROGRAMS = [relu, add, column, swap, flipped, shifted, softmax, before_and_after, moments, read_by_another]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("sizes", [(4, 8), (37, 53)])
def test_inputs_hold_what_eager_leaves_in_them(program, sizes) -> None:
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(sizes, generator=generator) for _ in range(2)]
    mine, theirs = ([x.clone() for x in given] for _ in range(2))
    with torch.no_grad():
        function = dynascope.compile(program)
        for _ in range(2):
            result, expected = function(*mine), program(*theirs)
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-4)
            torch.testing.assert_close(mine, theirs)
    assert [x._version > 0 for x in mine] == [x._version > 0 for x in theirs]


def _in_place(function, outputs, *inputs):
    schedule = fuse(lower(record(function, list(inputs))))
    return [step.in_place for step in written_in_place(schedule, outputs).steps if hasattr(step, "in_place")]


def test_a_kernel_writes_to_the_input_that_it_reads() -> None:
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    assert _in_place(lambda x, y: (x + y, x * y), ((0, 0),), x, y) == [{"x"}]


def test_nothing_is_written_over_what_is_still_read() -> None:
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    assert _in_place(lambda x, y: (x + y, x @ y), ((0, 0),), x, y) == [set()]
    assert _in_place(lambda x, y: (x.flip(0) + y,), ((0, 0),), x, y) == [set()]
    assert _in_place(lambda x, y: (x.softmax(-1),), ((0, 0),), x, y) == [set()]
    assert _in_place(lambda x, y: (x.t() + y,), ((0, 0),), x, y) == [set()]


def test_nothing_is_written_before_a_library_call_that_looks_at_values() -> None:
    x, a = torch.randn(8, 8), torch.randn(8, 8)
    assert _in_place(lambda x, a: (x + 1, a @ a), ((0, 0),), x, a) == [{"x"}]
    assert _in_place(lambda x, a: (x + 1, torch.linalg.cholesky_ex(a)[0]), ((0, 0),), x, a) == [set()]


def test_a_failing_index_leaves_the_input_as_it_was() -> None:
    def program(x, i):
        y = x[i]
        x.add_(1)
        return y

    x = torch.zeros(4)
    with pytest.raises(IndexError), torch.no_grad():
        dynascope.compile(program)(x, torch.tensor([1, 9]))
    assert torch.equal(x, torch.zeros(4))
