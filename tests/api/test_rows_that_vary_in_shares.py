"""Rows in several loops whose lengths vary, in shares: a thread's share begins anywhere in the loops, and may be none."""

import dynascope
import pytest
import torch

SIZES = ((3, 37, 5, 40), (2, 41, 7, 33), (5, 3, 29, 64), (4, 0, 6, 32), (7, 90, 11, 16))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def weighted(x, first, second):
    return (x.transpose(1, 2) * first[:, None, None] + second[:, :, None]).exp()


def normed(x, first, second):
    return torch.softmax(x.transpose(1, 2) + first[:, None, None] * second[:, :, None], -1)


@pytest.mark.parametrize("function", [weighted, normed])
def test_each_row_is_written(compilations, threads, function):
    compiled = dynascope.compile(function, dynamic=True)
    for a, b, c, d in SIZES:
        given = torch.randn(a, b, c, d), torch.randn(a, d), torch.randn(c, b)
        torch.testing.assert_close(compiled(*given), function(*given))
    assert len(compilations) == 2  # no rows at all are a case of their own
