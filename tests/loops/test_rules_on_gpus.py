"""Rules for GPUs, on one: conversions that wrap, extrema so far, interpolation and its gradients, one channel a group."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.gpu


def equal(function, *inputs):
    for ours, eagers in zip(dynascope.compile(function)(*inputs), function(*inputs), strict=True):
        assert ours.dtype == eagers.dtype and ours.stride() == eagers.stride()
        torch.testing.assert_close(ours, eagers, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_narrow_integers_wrap_as_eagers(dtype):
    edges = [0.0, -0.0, 127.5, 128.5, -128.9, -129.0, 255.9, 256.0, 32768.0, 65536.0, 2.0**31, -(2.0**31), 3e9, -3e9, 2.0**63, 1e20, -1e20]
    x = torch.tensor([*edges, torch.inf, -torch.inf, torch.nan], device="cuda", dtype=torch.float64)
    spread = torch.randn(100000, device="cuda", dtype=torch.float64) * 10 ** (torch.rand(100000, device="cuda", dtype=torch.float64) * 22)
    x = torch.cat([x, spread]).to(dtype)
    equal(lambda x: (x.to(torch.int8), (x * 1).to(torch.uint8), (x + 0).to(torch.int16), x.char() + 1, x.byte() + 1), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool])
@pytest.mark.parametrize("size", [(300, 77), (200, 4096), (7, 50000), (64, 33, 70)])
def test_extrema_so_far(dtype, size):
    x = (torch.randn(size, device="cuda") * 3).round() * -1
    if dtype.is_floating_point:
        x[3, ..., 5] = torch.nan
        x[5, ..., :9] = torch.inf
        x[6] = -torch.inf
    equal(lambda x: (*x.cummax(-1), *x.cummin(-1), *x.cummax(0), *x.cummin(1)), x.to(dtype))


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize("aligns", [False, True])
@pytest.mark.parametrize("to", [(34, 46), (5, 60), (100, 23), (17, 1), (8, 11)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_interpolation_is_as_near_to_float64_as_eagers(mode, aligns, to, dtype):
    x = torch.randn(2, 3, 17, 23, device="cuda", dtype=dtype, requires_grad=True)
    tangent = torch.randn(2, 3, *to, device="cuda", dtype=dtype)

    def call(x):
        return F.interpolate(x, to, mode=mode, align_corners=aligns)

    def results(call, x, tangent):
        y = call(x)
        return y, *torch.autograd.grad(y, x, tangent)

    ours, eagers = results(dynascope.compile(call), x, tangent), results(call, x, tangent)
    exact = results(call, x.double().detach().requires_grad_(), tangent.double())
    for mine, eager, wanted in zip(ours, eagers, exact, strict=True):
        assert mine.stride() == eager.stride() and mine.dtype == eager.dtype
        far, allowed = ((each.double() - wanted).norm() / wanted.norm() for each in (mine, eager))
        assert far <= 1.5 * allowed + 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_channel_a_group_and_its_gradients(dtype):
    x = torch.randn(8, 32, 40, 40, device="cuda", dtype=dtype, requires_grad=True)
    w = torch.randn(32, 1, 3, 3, device="cuda", dtype=dtype, requires_grad=True)
    tangent = torch.randn(8, 32, 40, 40, device="cuda", dtype=dtype)

    def call(x, w):
        return F.conv2d(x, w, padding=1, groups=32)

    def results(call, x, w, tangent):
        y = call(x, w)
        return y, *torch.autograd.grad(y, (x, w), tangent)

    ours, eagers = results(dynascope.compile(call), x, w, tangent), results(call, x, w, tangent)
    wide = [each.double().detach().requires_grad_() for each in (x, w)]
    exact = results(call, *wide, tangent.double())
    for mine, eager, wanted in zip(ours, eagers, exact, strict=True):
        assert mine.stride() == eager.stride() and mine.dtype == eager.dtype
        far, allowed = ((each.double() - wanted).norm() / wanted.norm() for each in (mine, eager))
        assert far <= 2 * allowed + (1e-6 if dtype == torch.float32 else 1e-3)
