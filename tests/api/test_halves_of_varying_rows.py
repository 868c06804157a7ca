"""A row of any length that is turned by halves, as rotary embeddings do: a loop for each half, and nothing is looked up by quotients."""

import dynascope
import pytest
import torch


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


@pytest.mark.parametrize("with_gradients", [False, True])
def test_one_entry_for_all_sizes(compilations, with_gradients):
    compiled = dynascope.compile(turned, dynamic=True)
    for sizes in ((2, 3, 5, 64), (3, 4, 7, 32), (4, 2, 9, 63), (2, 5, 2, 3)):
        x, cos, sin = torch.randn(sizes, requires_grad=with_gradients), torch.randn(sizes[2:]), torch.randn(sizes[2:])
        found, expected = compiled(x, cos, sin), turned(x, cos, sin)
        torch.testing.assert_close(found, expected)
        if with_gradients:
            torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), x)[0] for y in (found, expected)))
    assert len(compilations) == 1


def test_a_kernel_for_each_half():
    x, cos, sin = torch.randn(2, 3, 5, 64), torch.randn(5, 64), torch.randn(5, 64)
    report = dynascope.explain(dynascope.compile(turned, dynamic=True))(x, cos, sin).report
    assert len(report.kernels) == 2
