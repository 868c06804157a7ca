"""Pooling and interpolation as loops: eager's values, places and gradients, whatever the windows are."""

from __future__ import annotations

import math
from unittest.mock import patch

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.loops.lower import lower, resampling
from dynascope.loops.nodes import ExternCall
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from recording import record

pytestmark = pytest.mark.turns(2)

torch.manual_seed(0)


def is_lowered(function, *inputs) -> bool:
    return not any(isinstance(node, ExternCall) for node in lower(record(function, list(inputs))).nodes)


def check(function, x, **limits):
    """Results and the gradient, where there is one."""
    dynascope.reset()
    expected, found = function(x), dynascope.compile(function)(x)
    for mine, eagers in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, eagers, equal_nan=True, **limits)
        assert laid_out(mine) == laid_out(eagers)
    if x.requires_grad:
        tangent = torch.randn_like(expected[0])
        (mine,), (eagers,) = (torch.autograd.grad(each[0], x, tangent) for each in (found, expected))
        torch.testing.assert_close(mine, eagers, equal_nan=True, **limits)
        assert laid_out(mine) == laid_out(eagers)


def laid_out(tensor) -> list[int]:
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


@st.composite
def windows(draw):
    pair = lambda low, high: draw(st.tuples(st.integers(low, high), st.integers(low, high)))  # noqa: E731
    kernel = pair(1, 4)
    padding = tuple(draw(st.integers(0, width // 2)) for width in kernel)
    return pair(4, 9), kernel, pair(1, 4), padding, pair(1, 2), draw(st.booleans())


@settings(deadline=None, max_examples=25)
@given(windows(), st.booleans(), st.sampled_from(["numbers", "not a number", "lowest"]))
def test_the_greatest_of_a_window_and_where_it_lies(drawn, channels_last, holds):
    size, kernel, stride, padding, dilation, ceil = drawn
    assume(all(s + 2 * p >= d * (k - 1) + 1 for s, k, p, d in zip(size, kernel, padding, dilation, strict=True)))
    x = torch.randn(2, 3, *size)
    if holds != "numbers":
        x.masked_fill_(torch.rand_like(x) < 0.4, math.nan if holds == "not a number" else -math.inf)
    x = (x.to(memory_format=torch.channels_last) if channels_last else x).requires_grad_()
    pool = lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil, return_indices=True)  # noqa: E731
    assert is_lowered(pool, x)
    check(pool, x, rtol=0, atol=0)


@settings(deadline=None, max_examples=25)
@given(windows(), st.booleans(), st.sampled_from([None, 3]))
def test_the_mean_of_a_window(drawn, counts_padding, divisor):
    size, kernel, stride, padding, _, ceil = drawn
    assume(all(s + 2 * p >= k for s, k, p in zip(size, kernel, padding, strict=True)))
    x = torch.randn(2, 3, *size, requires_grad=True)
    pool = lambda x: (F.avg_pool2d(x, kernel, stride, padding, ceil, counts_padding, divisor),)  # noqa: E731
    assert is_lowered(pool, x)
    check(pool, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_narrow_values_are_added_up_as_exactly_as_by_eager(dtype):
    """A processor's own gradients of narrow means are rounded at each addition: ours are no worse."""
    x = torch.randn(2, 3, 12, 12, dtype=dtype, requires_grad=True)
    limit = 4 * torch.finfo(dtype).eps
    check(lambda x: (F.avg_pool2d(x, 3, 1, 1),), x, rtol=limit, atol=limit)
    check(lambda x: (F.max_pool2d(x, 3, 2, 1),), x, rtol=limit, atol=limit)


def test_large_windows_and_integers_stay_the_librarys():
    x = torch.randn(1, 1, 16, 16)
    assert not is_lowered(lambda x: F.max_pool2d(x, 8), x)
    check(lambda x: (F.max_pool2d(x, 8),), x)
    check(lambda x: (F.max_pool2d(x, 2),), torch.randint(0, 9, (1, 1, 8, 8)))


@settings(deadline=None, max_examples=20)
@given(st.tuples(*[st.integers(1, 9)] * 4), st.booleans(), st.sampled_from(["bilinear", "nearest", "nearest-exact"]), st.booleans())
def test_interpolation_reads_what_eager_reads(sizes, aligns, mode, by_factor):
    x = torch.randn(2, 3, *sizes[:2]).to(memory_format=torch.channels_last)
    options = {"align_corners": aligns} if mode == "bilinear" else {}
    how = {"scale_factor": (sizes[2] / 3 + 0.4, sizes[3] / 4 + 0.3)} if by_factor else {"size": sizes[2:]}
    assume(not by_factor or all(math.floor(s * f) > 0 for s, f in zip(sizes, how["scale_factor"], strict=False)))
    function = lambda x: (F.interpolate(x, mode=mode, **how, **options),)  # noqa: E731
    with patch.object(resampling, "_gathers", lambda call: False):
        assert is_lowered(function, x)
        check(function, x, rtol=1e-5, atol=1e-6)


def test_a_processor_leaves_rows_to_the_library():
    x = torch.randn(1, 8, 8, 8)
    double = lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")  # noqa: E731
    assert not is_lowered(double, x)
    assert is_lowered(double, x.to(memory_format=torch.channels_last))


@pytest.mark.parametrize("aligns", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size, to", [((5, 6), (10, 12)), ((7, 4), (9, 11)), ((1, 6), (4, 13)), ((9, 3), (7, 30))])
def test_bicubic_results_and_gradients_are_as_near_to_float64_as_eagers(size, to, dtype, channels_last, aligns):
    """On a processor where there are more of them than sources; each dimension by itself."""
    x = torch.randn(2, 3, *size, dtype=dtype)
    x = (x.contiguous(memory_format=torch.channels_last) if channels_last else x).requires_grad_()
    function = lambda x: F.interpolate(x, to, mode="bicubic", align_corners=aligns)  # noqa: E731
    assert is_lowered(function, x)
    tangent = torch.randn(2, 3, *to, dtype=dtype)
    exact = results(function, x.detach().double().requires_grad_(), tangent.double())
    dynascope.reset()
    for mine, eager, wanted in zip(results(dynascope.compile(function), x, tangent), results(function, x, tangent), exact, strict=True):
        assert mine.dtype == eager.dtype and laid_out(mine) == laid_out(eager)
        far, allowed = ((each.double() - wanted).norm() / wanted.norm() for each in (mine, eager))
        assert far <= 1.5 * allowed + 1e-6 * (dtype != torch.float64) + 1e-14


def results(function, x, tangent):
    y = function(x)
    return y, *torch.autograd.grad(y, x, tangent)


def test_fewer_results_than_sources_and_copies_are_left_to_the_library():
    for to in ((4, 5), (5, 6)):
        assert not is_lowered(lambda x, to=to: F.interpolate(x, to, mode="bicubic"), torch.randn(1, 2, 5, 6))


def test_a_costly_value_is_not_computed_for_each_window():
    """Sixteen readings of each element: its exponential is computed once, in a kernel before."""
    x = torch.randn(1, 8, 8, 8).to(memory_format=torch.channels_last)
    dynascope.reset()
    function = lambda x: F.avg_pool2d(x.erf().exp().lgamma(), 4, 1)  # noqa: E731
    assert len(dynascope.explain(function, x).report.kernels) == 2
