"""Compiled graphs against eager: values, dtypes, sizes, strides."""

from __future__ import annotations

import math

import pytest
import torch
from compiled import check, compiled, kernels
from dynascope.codegen.module import emit, runnable_of
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.schedule.fusion import fuse
from torch import fx
from torch.nn import functional

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-40,
    -1e-40,
    3.5,
    -2.5,
    0.5,
    1e30,
    -1e30,
    88.9,
    -104.0,
]

pytestmark = [pytest.mark.compiler, pytest.mark.turns(2)]


def floats(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_elementwise_floats(dtype: torch.dtype) -> None:
    def f(x, y):
        a, b = x * y + 1, x.abs() + 0.5
        return (
            a.exp(), b.log(), a.tanh(), a.sigmoid(), a.erf(), b.sqrt(), b.rsqrt(), a / b, a.maximum(y), a.floor(),
            a.round(), a.trunc(), a.ceil(), functional.gelu(a), functional.silu(a), a.clamp(-1, 1), -a, a.sign(), a > b, a == y,
        )  # fmt: skip

    check(f, floats(37, dtype=dtype), floats(37, dtype=dtype) * 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values(dtype: torch.dtype) -> None:
    x = torch.tensor(SPECIAL * 2).to(dtype)

    def f(x, y):
        return (
            x.exp(), x.log(), x.tanh(), x.sigmoid(), x.erf(), x.sqrt(), 1 / x, x.maximum(y), x.minimum(y), x.floor(), x.round(),
            x.trunc(), x.ceil(), x.sign(), x.isnan(), x.isinf(), x.clamp(-1, 1), x.relu(), x + y, x * y, x.bool(), x == y, x < y,
        )  # fmt: skip

    check(f, x, x.roll(3))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_elementwise_integers(dtype: torch.dtype) -> None:
    x = torch.randint(0, 120, (45,), dtype=dtype)

    def f(x, y):
        return (
            x + y, x - y, x * y, -x, x.bitwise_and(y), x | y, x ^ y, ~x, x // 7, x % 7, x / 3, x > y, x == y, x.abs(),
            x.sign(), x.maximum(y), x.clamp(3, 50), x.float(), x.double(), x.bool(), x.to(torch.int64), x.to(torch.int8),
            x << 2, x >> 1, x * 1.5,
        )  # fmt: skip

    check(f, x, x.flip(0))


def test_booleans() -> None:
    x, y = torch.rand(50) > 0.5, torch.rand(50) > 0.5
    check(
        lambda x, y: (x & y, x | y, x ^ y, ~x, x + y, x * y, x == y, x.float(), x.long(), x.logical_not(), x < y), x, y
    )


def test_promotion() -> None:
    i, f, h, b = torch.arange(20), floats(20), floats(20, dtype=torch.bfloat16), torch.arange(20) % 2 == 0

    def g(i, f, h, b):
        return i + f, i * 2.5, f + h, b + i, b * f, i > f, h * i, i / 3, b + 1.5, h + 0.1, f.double() + f, h == f

    check(g, i, f, h, b)


def test_zero_dimensional_and_empty() -> None:
    check(lambda x, s: (x * s, s + 1, x.sum() * s, s.exp()), floats(20), torch.tensor(2.5))
    check(lambda x: (x + 1, x * 2), torch.empty(0, 4))


def test_layouts() -> None:
    x = floats(6, 10, 14)
    check(lambda x: (x.permute(2, 0, 1) + 1, x.transpose(0, 2).contiguous() * 2, (x.t() if x.dim() == 2 else x) + 1), x)
    check(lambda x: x.permute(1, 2, 0) + x.permute(1, 2, 0).exp(), x)
    check(lambda x: (x[1:, ::2, 3] * 2, x[..., -1] + x[..., 0], x.reshape(60, 14).t() + 1, x.flip(1) + x), x)
    check(lambda x: x + 1, x[:, 2:8, ::3])
    check(lambda x: (x * 2, x.sum(1)), x.permute(2, 0, 1))
    check(lambda x, y: x + y, x, x.permute(2, 1, 0).contiguous().permute(2, 1, 0))
    check(lambda x: x.expand(4, 5, 6) + 1, floats(5, 1))
    check(lambda x, y: x + y.t(), floats(33, 65), floats(65, 33))
    check(lambda x: x.contiguous(memory_format=torch.channels_last) * 2, floats(2, 3, 4, 5))


def test_broadcasting() -> None:
    check(lambda x, y, z: (x + y) * z, floats(4, 1, 6), floats(5, 1), floats(6))
    check(lambda x, y: x[:, None] * y[None, :], floats(17), floats(23))


def test_joining() -> None:
    x, y = floats(5, 7), floats(5, 9)
    check(
        lambda x, y: (torch.cat([x, y, x * 2], 1), torch.stack([x, x + 1]), functional.pad(x, (1, 2, 3, 0), value=2.0)),
        x,
        y,
    )
    check(lambda x: torch.cat([x.exp(), x[:2]]).sum(0), x)
    check(lambda x: (x.repeat(2, 3), x.roll(2, 1), x.tril(1), x.triu(-1)), x)
    check(lambda x: torch.cat([x, torch.arange(7).expand(5, 7)], 0), x)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("sizes", [(3, 5, 17), (20, 33, 4)], ids=str)
def test_reductions(axes: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    def f(x):
        return (
            x.sum(axes), x.mean(axes, keepdim=True), x.amax(axes), x.amin(axes), x.var(axes), x.std(axes, unbiased=False),
            (x > 0).any(axes[0]), (x > -2).all(axes[0]), x.argmax(axes[0]), x.argmin(axes[0], keepdim=True), x.prod(axes[0]),
            torch.logsumexp(x, axes), *x.max(axes[0]), x.sum(), x.argmax(),
        )  # fmt: skip

    check(f, floats(*sizes), tolerance=1e-5)


@pytest.mark.parametrize("dtype", (torch.int64, torch.int32, torch.uint8, torch.bool), ids=str)
def test_integer_reductions(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (7, 41)).to(dtype)
    check(lambda x: (x.sum(1), x.sum(), x.any(1), x.all(0), x.sum(0)), x)
    if dtype != torch.bool:
        check(lambda x: (x.amax(1), x.argmax(1), x.argmin(0), *x.min(0)), x)


def test_reductions_with_nan() -> None:
    x = floats(6, 40)
    x[1, 3] = x[1, 7] = math.nan
    x[2, 5] = math.inf
    x[3] = -math.inf
    x[4] = 1.0
    check(lambda x: (x.amax(1), x.amin(1), x.argmax(1), x.argmin(1), x.sum(1), x.argmax(0), *x.max(1), x.softmax(1)), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("columns", [8, 50, 1000])
def test_normalizations(dtype: torch.dtype, columns: int) -> None:
    def f(x, w, b):
        return (
            x.softmax(-1), x.log_softmax(-1), functional.layer_norm(x, (columns,), w, b), x.softmax(0),
            x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w,
        )  # fmt: skip

    check(
        f,
        floats(9, columns, dtype=dtype),
        floats(columns, dtype=dtype),
        floats(columns, dtype=dtype),
        tolerance=1e-5 if dtype in FLOATS[:2] else None,
    )


def test_group_norm() -> None:
    check(
        lambda x, w, b: functional.silu(functional.group_norm(x, 4, w, b)),
        floats(2, 8, 5, 7),
        floats(8),
        floats(8),
        tolerance=1e-5,
    )


def test_indexing() -> None:
    table, tokens = floats(11, 20), torch.randint(0, 11, (3, 5))
    check(lambda t, i: functional.embedding(i, t) * 2, table, tokens)
    check(lambda t, i: (t[i], t[i, i], t[:, i[0]]), table, tokens - 5)
    check(lambda t, i: (t.index_select(0, i[0]), t.index_select(1, i[1]), t.gather(1, i.expand(3, 5))), table, tokens)


def test_index_out_of_range_raises() -> None:
    table, tokens = floats(11, 20), torch.tensor([1, 11])
    _, call = compiled(lambda t, i: t[i] + 1, [table, tokens])
    with pytest.raises(IndexError, match="11"):
        call(table, tokens)
    with pytest.raises(IndexError):
        call(table, torch.tensor([0, -12]))


def test_writing() -> None:
    x, v = floats(6, 8), floats(3, 8)
    i = torch.tensor([0, 2, 2])
    check(lambda x, v, i: (x.index_add(0, i, v), x.index_put((i,), v, accumulate=True)), x, v, i)
    check(lambda x, v, i: x.scatter(0, i[:, None].expand(3, 8), v * 0 + 1) + 1, x, v, i)
    check(lambda x, v: (x.slice_scatter(v, 0, 1, 4), x.select_scatter(v[0], 0, 2)), x, v)


def test_scalars_are_arguments() -> None:
    graph = fx.Graph()
    x, s, t = (graph.placeholder(name) for name in "xst")
    meta = torch.empty(20, device="meta")
    x.meta.update(val=meta, device=torch.device("cpu"))
    s.meta["val"], t.meta["val"] = 2, 0.5
    scaled = graph.call_function(torch.ops.aten.mul.Tensor, (x, s))
    shifted = graph.call_function(torch.ops.aten.add.Tensor, (scaled, t))
    for node in (scaled, shifted):
        node.meta.update(val=meta, device=torch.device("cpu"))
    graph.output((shifted, s))
    module = emit(fuse(lower(fx.GraphModule(torch.nn.Module(), graph))))
    call, value = build(runnable_of(module)).call, floats(20)
    for number, offset in ((2, 0.5), (7, 1.5)):
        actual, passed = call(value, number, offset)
        torch.testing.assert_close(actual, value * number + offset)
        assert passed == number
    assert kernels(module)[0].scalars == ("s", "t")


def test_library_calls_between_kernels() -> None:
    def f(x, w, b):
        h = functional.relu(torch.addmm(b, x, w.t()))
        return (h @ w).softmax(-1), torch.sort(h, 1)[0] + 1

    check(f, floats(4, 6), floats(10, 6), floats(10), tolerance=1e-5)


def test_large_sums_are_accurate() -> None:
    x = torch.rand(1 << 20) + 1
    _, call = compiled(lambda x: (x.sum(), x.reshape(1024, 1024).sum(0)), [x])
    total, columns = call(x)
    assert abs(total.double() - x.double().sum()) / x.double().sum() < 2e-7
    torch.testing.assert_close(columns.double(), x.double().reshape(1024, 1024).sum(0), rtol=4e-7, atol=0)


def test_threads_give_the_same() -> None:
    x = floats(513, 1027)
    check(lambda x: (functional.gelu(x) * 2 + x.softmax(-1), x.sum(0)), x, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8], ids=str)
def test_reductions_over_rows_that_lie_side_by_side(dtype: torch.dtype) -> None:
    """Long enough for several vectors of rows, with a rest of each kind."""

    def f(x, y):
        total = x.sum(0)
        return total, (x * y).sum(0), x.amax(0), x.amin(0), (x > 1).any(0), (x > -3).all(0), x + y, x[:7].prod(0)

    for rows, columns in ((9, 100), (300, 131), (7, 1100)):
        x = (floats(rows, columns) * 2).to(dtype)
        y = (floats(columns) * 2).to(dtype)
        check(f, x, y, tolerance=2e-2 if dtype == torch.bfloat16 else 1e-4)


def test_several_passes_over_rows_that_lie_side_by_side() -> None:
    def f(x, w):
        average, spread = x.mean(0), x.var(0)
        normal = (x - average) * torch.rsqrt(spread + 1e-5) * w.exp()
        return x.softmax(0), x.log_softmax(0), normal, (normal * normal).sum(0), x.logsumexp(0)

    for sizes in ((33, 100), (1500, 70), (5, 2000)):
        x = floats(*sizes)
        x[1, 3] = math.nan
        check(f, x, floats(sizes[1]), tolerance=1e-4)
    check(lambda x: (x.softmax(1), x.sum(1), x.sum((0, 1)), x.amax(1)), floats(3, 40, 90), tolerance=1e-4)


@pytest.mark.turns(6)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str
)
@pytest.mark.parametrize("sizes", [(64, 100), (1, 70), (130, 9), (16, 16), (33, 200)])
def test_reading_across_the_lanes(dtype: torch.dtype, sizes: tuple[int, int]) -> None:
    x, y = (floats(*sizes) * 3).to(dtype), (floats(*sizes[::-1]) * 3).to(dtype)
    check(lambda x, y: (x.t() == y, x.t().contiguous(), y.t() | x if dtype == torch.bool else y.t() * x), x, y)
    z = (floats(3, *sizes) * 3).to(dtype)
    check(lambda z, y: (z.transpose(1, 2) == y, z.permute(2, 0, 1).contiguous()), z, y)
