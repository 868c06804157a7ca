"""The mean over a given number of windows: eager's values, gradients and layouts, by kernels."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

SIDES = st.tuples(st.integers(1, 11), st.integers(1, 11))


def both_passes(function, x):
    given = x.clone(memory_format=torch.preserve_format).requires_grad_()
    result = function(given)
    tangent = torch.linspace(-1, 1, result.numel(), dtype=x.dtype).view(result.shape)
    (result * tangent).sum().backward()
    return result.detach(), given.grad


def assert_as_eager(pooled, x, **limits):
    dynascope.reset()
    for ours, wanted in zip(both_passes(dynascope.compile(pooled), x), both_passes(pooled, x), strict=True):
        assert ours.stride() == wanted.stride()
        torch.testing.assert_close(ours, wanted, **limits)


@pytest.mark.compiler
@settings(deadline=None, max_examples=12)
@given(SIDES, SIDES, st.booleans())
def test_any_number_of_windows(size, count, is_channels_last):
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0))
    x = x.contiguous(memory_format=torch.channels_last) if is_channels_last else x
    assert_as_eager(lambda x: F.adaptive_avg_pool2d(x.sin(), count) * 2, x, rtol=1e-5, atol=1e-6)


POOLED = {
    "lines": (F.adaptive_avg_pool1d, (2, 3, 10), 4),
    "volumes": (F.adaptive_avg_pool3d, (2, 3, 4, 5, 6), (2, 3, 6)),
    "more windows than elements": (F.adaptive_avg_pool2d, (2, 3, 3, 5), (7, 9)),
    "one side as it is": (F.adaptive_avg_pool2d, (2, 3, 6, 5), (None, 2)),
    "no elements": (F.adaptive_avg_pool2d, (0, 3, 6, 4), 2),
}


@pytest.mark.compiler
@pytest.mark.parametrize("case", POOLED)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_other_sides(case, dtype):
    function, shape, count = POOLED[case]
    if dtype == torch.bfloat16 and case == "volumes":
        pytest.skip("the library has no kernel for these on a processor")
    x = torch.linspace(-2, 3, torch.Size(shape).numel(), dtype=dtype).view(shape)
    assert_as_eager(lambda x: function(x * 1, count) * 2, x)


@pytest.mark.parametrize("count", [(3, 2), (6, 8)])
def test_they_are_kernels(count):
    text = dynascope.explain(lambda x: F.adaptive_avg_pool2d(x, count), torch.ones(1, 2, 6, 8, requires_grad=True)).show("groups")
    assert "aten._adaptive" not in text
