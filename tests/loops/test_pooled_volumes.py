"""The mean over windows of volumes, and what stands on it: eager's values and gradients, by kernels."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

X = torch.randn(2, 3, 7, 6, 8, generator=torch.Generator().manual_seed(0))

POOLED = {
    "whole windows": lambda x: F.avg_pool3d(x, 2),
    "overlapping": lambda x: F.avg_pool3d(x, 3, 2, 1),
    "sides of several widths": lambda x: F.avg_pool3d(x, (3, 1, 2), (1, 2, 1), (1, 0, 1), count_include_pad=False),
    "beyond the end": lambda x: F.avg_pool3d(x, 2, 3, ceil_mode=True),
    "a divisor": lambda x: F.avg_pool3d(x, (1, 2, 2), divisor_override=3),
    "without a batch": lambda x: F.avg_pool3d(x[0], 2),
    "local response": lambda x: F.local_response_norm(x, 3),
    "local response of images": lambda x: F.local_response_norm(x[:, :, 0], 5, 2e-2, 0.6, 2.0),
}


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last_3d], ids=str)
@pytest.mark.parametrize("pooled", POOLED.values(), ids=POOLED)
def test_volumes(pooled, layout, dtype):
    x = X.to(dtype).contiguous(memory_format=layout)
    sides = []
    for function in (dynascope.compile(pooled), pooled):
        given = x.clone(memory_format=torch.preserve_format).requires_grad_()
        result = function(given)
        result.float().square().sum().backward()
        sides.append((result.detach(), given.grad))
    for ours, wanted in zip(*sides, strict=True):
        assert ours.stride() == wanted.stride()
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.compiler
def test_halves_are_refused_as_eager_does():
    for function in (POOLED["overlapping"], dynascope.compile(POOLED["overlapping"])):
        with pytest.raises(NotImplementedError, match="avg_pool3d.* not implemented for 'BFloat16'"):
            function(X.bfloat16())


@pytest.mark.parametrize("pool", [F.avg_pool2d, F.avg_pool3d])
def test_a_divisor_of_nothing_is_eagers_error(pool):
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        dynascope.compile(lambda x: pool(x, 2, divisor_override=0))(X)


def test_they_are_kernels():
    text = dynascope.explain(POOLED["overlapping"], X).show("groups")
    assert "aten.avg_pool3d" not in text


NARROWED = {
    torch.int8: lambda x: torch.clamp(torch.round(x), -128, 127).to(torch.int8),
    torch.uint8: lambda x: x.clamp(0, 255).floor().to(torch.uint8),
    torch.int16: lambda x: x.trunc().clamp(-32768.0, 32767.0).to(torch.int16),
}


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", NARROWED, ids=str)
def test_what_is_clamped_is_narrowed_by_a_kernel(dtype):
    x = torch.cat([torch.linspace(-40000, 40000, 999), torch.linspace(-300, 300, 601), torch.tensor([torch.nan, torch.inf, -torch.inf])])
    for given in (x, x.half(), x.double()):
        assert torch.equal(dynascope.compile(NARROWED[dtype])(given), NARROWED[dtype](given))
    assert "_to_copy" not in dynascope.explain(NARROWED[dtype], x).show("groups")


@pytest.mark.compiler
def test_what_may_lie_beyond_is_the_librarys():
    def narrowed(x):
        return (x * 2).to(torch.int8), x.clamp(-200, 100).to(torch.int8), x.clamp(max=100).to(torch.int8)

    x = torch.linspace(-400, 400, 801)
    for ours, wanted in zip(dynascope.compile(narrowed)(x), narrowed(x), strict=True):
        assert torch.equal(ours, wanted)
