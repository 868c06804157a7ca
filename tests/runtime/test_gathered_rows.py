"""Rows too long for one program, on a GPU: several programs hold a row, or go through it, and wait for one another."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope import recording

pytestmark = pytest.mark.gpu


def normal(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, device="cuda", generator=torch.Generator("cuda").manual_seed(sum(sizes))).to(dtype)


def close(found, eager, exact):
    """As near to what float64 gives as eager, times four."""
    error, usual = ((each.double() - exact).abs().max() for each in (found, eager))
    scale = exact.abs().max()
    assert found.dtype == eager.dtype and found.stride() == eager.stride()
    assert error <= 4 * usual + 1e-6 * scale, (error, usual)


def check(function, *inputs, gathers=True):
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(function, dynamic=False)
        found = [compiled(*inputs) for _ in range(3)]
    finally:
        recording.use(before)
    texts = [kernel.text for kernel in recorder.report().kernels]
    assert gathers is None or any("meet(" in text for text in texts) is gathers, texts
    eager, exact = function(*inputs), function(*(x.double() if x.is_floating_point() else x for x in inputs))
    for each in found:
        if eager.is_floating_point():
            close(each, eager, exact)
        else:
            assert torch.equal(each, eager)
    assert all(torch.equal(found[0], each) for each in found)


@pytest.mark.parametrize("sizes", [(256, 262144), (3, 100_003), (1, 3_000_001), (700, 40_000), (16, 65_537)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_softmax(sizes, dtype):
    gathers = sizes[1] * dtype.itemsize > 131072
    check(lambda x: torch.softmax(x, -1), normal(*sizes, dtype=dtype), gathers=gathers)


@pytest.mark.parametrize("rows", [8, 4096])
def test_exponentials_under_a_maximum_that_is_infinite(rows):
    """Found along with it, by programs that wait for one another and in a loop."""
    x = normal(rows, 50_257)
    x[0], x[1, 5], x[2, 40_000:], x[3, 7] = float("-inf"), float("inf"), float("-inf"), float("nan")
    found = dynascope.compile(lambda x: torch.logsumexp(x, -1))(x)
    torch.testing.assert_close(found, torch.logsumexp(x, -1), equal_nan=True)


def test_all_kinds_of_reductions_in_one_row():
    def function(x):
        spread = x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True)
        near = (x > spread / 4).any(-1, keepdim=True)
        return torch.where(near, (x - x.mean(-1, keepdim=True)) / spread, x)

    check(function, normal(40, 90_000))


def test_places():
    check(lambda x: (x - x.amax(-1, keepdim=True)).argmax(-1), normal(8, 200_000))
    check(lambda x: (x * 7).to(torch.int64).argmin(-1), normal(8, 200_000), gathers=False)


def test_groups_and_channels():
    x, weight, bias = normal(4, 64, 128, 128), normal(64), normal(64)
    check(lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), x, weight, bias)
    check(lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)), x, weight, bias)


def test_statistics_are_moved_on_once():
    sides = [torch.nn.BatchNorm2d(32).cuda() for _ in range(2)]
    x = normal(16, 32, 96, 96)
    compiled = dynascope.compile(sides[0])
    for _ in range(5):
        torch.testing.assert_close(compiled(x), sides[1](x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sides[0].running_mean, sides[1].running_mean)
    torch.testing.assert_close(sides[0].running_var, sides[1].running_var)


def test_in_place():
    x = normal(64, 150_000)
    wanted = torch.softmax(x, -1)

    def step(x):
        x.copy_(torch.softmax(x, -1))

    dynascope.compile(step)(x)
    torch.testing.assert_close(x, wanted)


def test_gradients():
    x, weight, bias, tangent = normal(8, 16, 160, 160), normal(16), normal(16), normal(8, 16, 160, 160)
    given = [each.requires_grad_() for each in (x, weight, bias)]

    def gradients(function, given):
        return torch.autograd.grad(function(*given), given, tangent.to(given[0].dtype))

    def function(x, w, b):
        return F.gelu(F.batch_norm(x, None, None, w, b, True))

    ours, eager = gradients(dynascope.compile(function), given), gradients(function, given)
    exact = gradients(function, [each.detach().double().requires_grad_() for each in given])
    for found, usual, right in zip(ours, eager, exact, strict=True):
        close(found, usual, right)


def test_several_streams_at_once():
    x = [normal(100, 200_000 + 1000 * n) for n in range(4)]
    compiled = dynascope.compile(lambda x: torch.softmax(x, -1), dynamic=False)
    streams = [torch.cuda.Stream() for _ in x]
    for each in x:
        compiled(each)
    torch.cuda.synchronize()
    found = []
    for _ in range(20):
        for stream, each in zip(streams, x, strict=True):
            with torch.cuda.stream(stream):
                found.append(compiled(each))
    torch.cuda.synchronize()
    for at, result in enumerate(found):
        torch.testing.assert_close(result, torch.softmax(x[at % 4], -1))


def test_recorded_in_a_graph_of_the_device():
    x = normal(100, 200_000)
    compiled = dynascope.compile(lambda x: torch.softmax(x, -1), mode="reduce-overhead")
    for scale in range(1, 6):
        torch.testing.assert_close(compiled(x * scale), torch.softmax(x * scale, -1))


@pytest.mark.parametrize("sizes", [(100_003, 40), (401_408, 64), (3_000, 130), (1_568, 2_048)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_down_the_columns(sizes, dtype):
    """Few rows are reduced by one kernel, whose programs wait for one another where a sum needs the maximum, and read again by another."""
    check(lambda x: torch.softmax(x, 0), normal(*sizes, dtype=dtype))
    check(lambda x: (x - x.mean(0)) / x.float().std(0), normal(*sizes, dtype=dtype), gathers=None)
    check(lambda x: x - x[0] * x.argmax(0), normal(*sizes, dtype=dtype), gathers=False)


@pytest.mark.parametrize("sizes", [(32, 64, 56, 56), (8, 24, 31, 33), (32, 2048, 7, 7)])
def test_batch_norm_of_channels_last(sizes):
    norms = [torch.nn.BatchNorm2d(sizes[1], device="cuda") for _ in range(3)]
    norms[2].double()
    functions = [dynascope.compile(lambda x: F.relu(norms[0](x))), lambda x: F.relu(norms[1](x)), lambda x: F.relu(norms[2](x))]
    for _ in range(3):
        x = (normal(*sizes) * 2 + 1).contiguous(memory_format=torch.channels_last)
        given = [x.clone().requires_grad_(), x.clone().requires_grad_(), x.double().requires_grad_()]
        results = [function(each) for function, each in zip(functions, given, strict=True)]
        for result in results:
            (result * torch.linspace(-1, 1, sizes[-1], device="cuda", dtype=result.dtype)).sum().backward()
        close(*results)
        close(*(each.grad for each in given))
        for parameters in zip(*(norm.parameters() for norm in norms), strict=True):
            close(*(each.grad for each in parameters))
        for buffers in zip(*(norm.buffers() for norm in norms), strict=True):
            close(*buffers)
