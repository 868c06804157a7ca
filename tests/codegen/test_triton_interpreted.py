"""Kernels run in Triton's interpreter give what eager gives."""

from __future__ import annotations

import math
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "loops"))

import pytest
import torch
import torch.nn.functional as F

from triton_interpreter import launchers_for, triton  # isort: skip
from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton import row_plan
from dynascope.loops.lower import lower
from dynascope.schedule import row_sums
from dynascope.schedule.fusion import fuse
from dynascope.schedule.in_place import written_in_place
from recording import record
from triton_executor import Executor

SMALL = DeviceModel(multiprocessors=2)
"""Few multiprocessors: fewer programs for the interpreter to run one after another."""


def run(function, *inputs, device=SMALL):
    schedule = fuse(lower(record(function, list(inputs)), list(inputs)))
    executor = Executor(schedule, launchers_for, device)
    return executor, executor(*[x.clone() if isinstance(x, torch.Tensor) else x for x in inputs])


def check(function, *inputs, kernels=None, tolerance=None):
    executor, results = run(function, *inputs)
    wanted = function(*inputs)
    wanted = wanted if isinstance(wanted, (list, tuple)) else (wanted,)
    for result, want in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, want, equal_nan=True, **(tolerance or {}))
    if kernels is not None:
        assert len(executor.kernels) == kernels, [k.name for k in executor.kernels]
    return executor


def normal(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def never_held(monkeypatch):
    """Every row is too long for the registers of one program."""
    monkeypatch.setattr(row_plan, "_HELD_BYTES", 64)
    monkeypatch.setattr(row_plan, "_LONG_HELD_BYTES", 64)


COARSE = {"rtol": 0.05, "atol": 0.05}
"""The interpreter cuts f32 to bf16 where the device rounds."""


def test_single_elements_joined_beside_a_sum_of_rows():
    """Each is read where the row's position says so: along the rows of the tile and not along its columns."""

    def added(x, first, second, third):
        return x.sum(0) + torch.cat([first, second, third])

    check(added, normal(4, 3), normal(1), normal(1) + 1, normal(1) + 2, kernels=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.float16])
def test_a_chain_is_one_kernel(dtype):
    def chain(x, y):
        z = torch.sigmoid(x) * y + 1.5
        return torch.where(z > 0, z.exp(), -z)

    tolerance = COARSE if dtype == torch.bfloat16 else None
    check(chain, normal(33, 45, dtype=dtype), normal(33, 45, dtype=dtype), kernels=1, tolerance=tolerance)


def test_transposed_reading_is_tiled():
    executor = check(lambda x, y: x.t() + y, normal(70, 50), normal(50, 70), kernels=1)
    assert "[:, None]" in executor.kernels[0].text


def test_no_mask_where_the_block_divides():
    executor = check(lambda x: x * 2, normal(64, 64), kernels=1)
    assert "mask" not in executor.kernels[0].text


@pytest.mark.parametrize("columns", [5, 64, 1000, 20000])
def test_softmax(columns):
    check(lambda x: torch.softmax(x, -1), normal(3, columns), kernels=1)


def test_long_softmax_reads_twice():
    x = normal(3, 40000)
    x[0, :200] = float("-inf")
    x[1] = float("-inf")
    x[2, 17] = float("nan")
    executor = check(lambda x: torch.softmax(x, -1), x, kernels=1)
    assert executor.kernels[0].text.count("for start in") == 2


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_softmax_of_each_dimension(dim):
    check(lambda x: torch.softmax(x, dim), normal(6, 20, 7))


@pytest.mark.parametrize("dim", [0, 1, (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax"])
def test_reductions_of_each_dimension(dim, name):
    check(lambda x: getattr(torch, name)(x, dim), normal(9, 33, 20))


@pytest.mark.parametrize("sizes", [(1, 9000), (9000,), (3000, 8), (100, 100)])
def test_whole_sums_are_split(sizes):
    executor = check(lambda x: x.sum(), normal(*sizes), kernels=1, tolerance={"rtol": 1e-5, "atol": 1e-3})
    split = any(kernel.workspace_bytes for kernel in executor.kernels)
    assert split == (normal(*sizes).numel() >= 8192)


def test_column_sums_are_split():
    executor = check(lambda x: x.sum(0), normal(2000, 40), kernels=1, tolerance={"rtol": 1e-5, "atol": 1e-4})
    assert executor.kernels[0].workspace_bytes


@pytest.mark.parametrize("sizes", [(4, 100), (2, 9000)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(sizes, name):
    x = torch.randint(0, 50, sizes, generator=torch.Generator().manual_seed(1)).float()
    check(lambda x: getattr(torch, name)(x, 1), x)
    x[1, 7] = float("nan")
    check(lambda x: getattr(torch, name)(x, 1), x)


def test_nan_wins_a_maximum():
    x = normal(5, 300)
    x[2, 100] = float("nan")
    check(lambda x: (x.amax(1), x.amin(1), torch.maximum(x, x.flip(1))), x)


@pytest.mark.parametrize("name", ["any", "all"])
def test_truths(name):
    check(lambda x: getattr(torch, name)(x > 2.5, 1), normal(20, 70))


def test_layer_norm():
    def norm(x, w, b):
        return F.layer_norm(x, (300,), w, b)

    check(norm, normal(8, 300), normal(300), normal(300))


def test_integers():
    a = torch.randint(-20, 20, (300,), generator=torch.Generator().manual_seed(0))
    b = torch.randint(1, 7, (300,), generator=torch.Generator().manual_seed(1)) * torch.tensor([1, -1]).repeat(150)

    def integers(a, b):
        return a // b, a % b, torch.div(a, b, rounding_mode="trunc"), a & b, a ^ b, a.float() / 3, a.to(torch.int8)

    check(integers, a, b)


def test_float_division_rounds_down():
    a, b = normal(300) * 10, normal(301)[:300]
    check(lambda a, b: (a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc")), a, b)


def units_apart(a, b):
    """How many f32 numbers lie between two of one sign."""
    ordered = [torch.where(each.view(torch.int32) < 0, -(each.view(torch.int32) & 0x7FFFFFFF), each.view(torch.int32)) for each in (a, b)]
    return (ordered[0].long() - ordered[1].long()).abs()


def test_quotients_are_within_a_unit_whatever_is_divided():
    """Also by what has no inverse in range, of what is nearly nothing, and by zeros and infinities."""
    ends = torch.tensor([0.0, -0.0, 1.0, -3.0, 1e-45, -1.2e-38, 1.4e-38, 2.9e-39, 3.4e38, -1.8e19, 5.4e-20, float("inf"), float("nan")])
    bits = torch.randint(-(2**31), 2**31, (2, 20000), generator=torch.Generator().manual_seed(5)).int().view(torch.float32)
    near = 1 + torch.rand(2, 20000, generator=torch.Generator().manual_seed(6))
    counts = torch.arange(1.0, 20001.0)
    x = torch.cat([ends.repeat_interleave(len(ends)), bits[0], near[0], counts * 41])
    y = torch.cat([ends.repeat(len(ends)), bits[1], near[1], counts])
    _, (result,) = run(lambda x, y: x / y, x, y)
    wanted = x / y
    is_number = wanted.isfinite()
    assert torch.equal(result.isnan(), wanted.isnan()) and torch.equal(result[wanted.isinf()], wanted[wanted.isinf()])
    apart = units_apart(result[is_number], wanted[is_number])
    is_least = x[is_number].abs() < 2.0**-102  # what is left over of it is nothing
    assert apart[~is_least].max() <= 1 and apart[is_least].max() <= 3 and (apart != 0).float().mean() < 1e-2
    assert torch.equal(result[-20000:], torch.full((20000,), 41.0)), "a quotient that is a number is that number"


def test_sigmoid_at_both_ends():
    ends = [0.0, -0.0, 88.0, -88.0, -89.0, -200.0, 200.0, float("inf"), -float("inf"), float("nan"), 1e-30]
    check(lambda x: torch.sigmoid(x), torch.tensor(ends))


def test_embedding():
    tokens = torch.tensor([3, 0, 9, 3])
    check(lambda w, t: F.embedding(t, w), normal(10, 24), tokens)


def test_scatter_adds():
    def scatter(base, index, source):
        return base.index_put((index,), source, accumulate=True)

    check(scatter, normal(6, 12), torch.tensor([1, 1, 5, 0]), normal(4, 12))


def picked_by_computed_rows(x):
    rows, columns = torch.arange(3), torch.arange(5) - 5
    return x[rows[:, None], columns + 0] * 2


def picked_in_a_transposed_tile(x, y):
    return x[torch.arange(5)[:, None], torch.arange(3)] + y.t()


def summed_of_computed_places(x):
    return x[:, torch.arange(5) * 1].sum(1), x[torch.arange(3)].sum(0)


@pytest.mark.parametrize("function", [picked_by_computed_rows, summed_of_computed_places])
def test_computed_indices_are_checked_within_the_tensor_only(function):
    """Lanes past the end compute indices that are out of range: an assertion that asked them would end the process on a device."""
    check(function, normal(3, 5))


def test_computed_indices_of_a_transposed_tile():
    check(picked_in_a_transposed_tile, normal(5, 3), normal(3, 5))


def test_an_index_out_of_range_ends_the_kernel():
    executor, _ = run(lambda x, index: x[index] + 1, normal(5), torch.tensor([0, 4, 2]))
    with pytest.raises(triton.runtime.errors.InterpreterError, match="an index is out of range for a dimension of size 5"):
        executor(normal(5), torch.tensor([0, 5, 2]))


@pytest.mark.parametrize("rows, columns", [(24, 16), (21, 5), (9, 300)])
def test_sums_down_the_columns_beside_rows(rows, columns, monkeypatch):
    monkeypatch.setattr(row_sums, "PROGRAMS", 3)
    monkeypatch.setattr(row_sums, "FEWEST_ROWS", 8)

    def gradients(x, weight, tangent):
        inner = tangent * weight
        return torch.softmax(inner * x.exp(), -1), (tangent * x.exp()).sum(0), tangent.sum(0) + 1

    executor = check_on_gpu(gradients, normal(rows, columns), normal(columns), normal(rows, columns + 1)[:, 1:])
    assert [kernel.grid[0] for kernel in executor.kernels][0] == 3 and len(executor.kernels) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("dimension", [0, 1])
def test_sums_up_to_each_element(dtype, dimension):
    x = (normal(7, 37) * 4).to(dtype)
    tolerance = COARSE if dtype == torch.bfloat16 else {}
    (kernel,) = check_on_gpu(lambda x: x.cumsum(dimension), x, **tolerance).kernels
    assert "cumsum" in kernel.text


def test_scans_go_on_from_block_to_block_and_fuse(monkeypatch):
    """Rows too long to hold: what the blocks before come to is carried, anew in each pass."""
    never_held(monkeypatch)
    monkeypatch.setattr(row_plan, "_looped", lambda columns, *_: row_plan.RowPlan("looped", 1, 16, 1, -(-columns // 16)))

    def scans(x, y):
        shares = torch.softmax(x, -1).cumsum(-1)
        return shares * (shares.sum(-1, keepdim=True) + y), (y * 0.1 + 1).expand(x.shape).cumprod(-1)

    executor = check_on_gpu(scans, normal(3, 75), normal(3, 1), rtol=1e-4, atol=1e-5)
    assert any("_carry" in kernel.text for kernel in executor.kernels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool])
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("is_held", [True, False])
def test_extrema_so_far_and_their_places(dtype, dimension, is_held, monkeypatch):
    """Equal ones, zeros of either sign, NaN and what comes after it, in one block and from block to block."""
    if not is_held:
        never_held(monkeypatch)
        monkeypatch.setattr(row_plan, "_looped", lambda columns, *_: row_plan.RowPlan("looped", 1, 8, 1, -(-columns // 8)))
    x = (normal(9, 75) * 2).round() * -1
    if dtype.is_floating_point:
        x[2, 30] = x[5, 3] = x[5, 40] = float("nan")
        x[7, :2], x[8, :9] = torch.tensor([-math.inf, math.inf]), -math.inf
    x = x.to(dtype)
    executor = check_on_gpu(lambda x: (*x.cummax(dimension), *x.cummin(dimension)), x, equal_nan=True, rtol=0, atol=0)
    assert all("associative_scan" in kernel.text for kernel in executor.kernels) and executor.kernels
    if dtype.is_floating_point:
        zeros = torch.tensor([[0.0, -0.0, 0.0, -0.0, -1.0, -0.0]], dtype=dtype)
        check_on_gpu(lambda x: tuple(torch.signbit(x.cummax(1).values).unbind(1)), zeros)


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize("aligns", [False, True])
@pytest.mark.parametrize(
    "size, to", [((5, 6), (10, 12)), ((7, 4), (3, 9)), ((5, 5), (13, 5)), ((1, 6), (4, 1)), ((9, 3), (1, 11)), ((3, 12), (9, 4))]
)
def test_interpolation_and_its_gradient(mode, aligns, size, to):
    """Up, down, between sizes that do not divide, to and from one element: against float64."""
    operator = getattr(torch.ops.aten, f"upsample_{mode}2d")
    gradient = getattr(torch.ops.aten, f"upsample_{mode}2d_backward").default
    x, tangent = normal(2, 3, *size), normal(2, 3, *to)

    def both(x, tangent):
        return operator.default(x, to, aligns), gradient(tangent, to, [2, 3, *size], aligns)

    executor = check_on_gpu(both, x, tangent, rtol=1e-4, atol=1e-5)
    if mode == "bicubic" and to == (10, 12):
        assert len(executor.kernels) == 6  # a dimension by itself, both ways, and a table of shares for each
    exact = both(x.double(), tangent.double())
    for mine, wanted in zip(executor(x, tangent), exact, strict=True):
        torch.testing.assert_close(mine.double(), wanted, rtol=1e-4, atol=1e-5)


def test_interpolation_by_a_factor_of_the_program():
    def doubled(x, tangent):
        gradient = torch.ops.aten.upsample_bicubic2d_backward.default(tangent, [10, 12], [2, 3, 5, 6], False, 2.0, 2.0)
        return torch.ops.aten.upsample_bicubic2d.default(x, [10, 12], False, 2.0, 2.0), gradient

    check_on_gpu(doubled, normal(2, 3, 5, 6), normal(2, 3, 10, 12), rtol=1e-4, atol=1e-5)


def check_on_gpu(function, *inputs, **limits):
    """As `check`, of what is made for a GPU."""
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    executor = Executor(fuse(lower(graph)), launchers_for, SMALL)
    executor.allocate = lambda buffer: torch.zeros(buffer.sizes, dtype=buffer.dtype).fill_(77)
    wanted = function(*inputs)
    for mine, eagers in zip(executor(*inputs), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(mine, eagers, **limits)
    return executor


def test_few_rows_side_by_side_are_reduced_by_one_kernel_and_read_by_another():
    def norm(x, weight):
        variance, mean = torch.var_mean(x.float(), (0, 2, 3), correction=0, keepdim=True)
        y = (x.float() - mean) * (variance + 1e-5).rsqrt() * weight[:, None, None]
        return torch.nn.functional.silu(y.to(torch.bfloat16)), mean, variance

    x = normal(2, 5, 24, 24).to(torch.bfloat16).to(memory_format=torch.channels_last)
    executor = check_on_gpu(norm, x, normal(5), **COARSE)
    assert len(executor.kernels) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shares_and_places_down_the_columns(dtype):
    def shares(x):
        return torch.softmax(x, 0), (x - x.mean(0)) / x.float().std(0), x - x[0] * x.argmax(0)

    executor = check_on_gpu(shares, normal(1100, 5).to(dtype), **(COARSE if dtype == torch.bfloat16 else {}))
    assert len(executor.kernels) >= 2 and not any("meet(" in kernel.text for kernel in executor.kernels)


def test_steps_of_an_arange_that_need_64_bits():
    check(lambda x: x + torch.arange(0, 1 << 34, 1 << 30), torch.ones(16, dtype=torch.int64))


def test_pooling_and_interpolation():
    x = normal(2, 3, 9, 11)
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x, kernels=1)
    check(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), x, kernels=1)
    wide = x.to(memory_format=torch.channels_last)
    check(lambda x: F.interpolate(x, scale_factor=2.5, mode="bilinear") + 1, wide, kernels=1)
    check(lambda x: F.interpolate(x, size=(4, 17)), wide, kernels=1)


def test_cross_entropy():
    target = torch.tensor([1, 5, 299, 0])
    check(lambda x, t: F.cross_entropy(x, t), normal(4, 300), target, tolerance={"rtol": 1e-5, "atol": 1e-5})


def test_the_gradient_of_a_loss_over_few_long_rows_has_nothing_to_combine():
    """Programs share a row, of which the sum is one element."""

    def gradient(scores, total, target):
        inside = (target >= 0) & (target < scores.shape[1])
        places = torch.arange(scores.shape[1]) == target.clamp(0, scores.shape[1] - 1)[:, None]
        slope = torch.where(places & inside[:, None], -1.0, 0.0)
        return slope - (scores - total).exp() * slope.sum(1, keepdim=True)

    scores = normal(1, 9000)
    executor = check(gradient, scores, scores.logsumexp(1, keepdim=True), torch.tensor([7000]), kernels=1)
    assert " // 9" in executor.kernels[0].text and not executor.kernels[0].workspace_bytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_maximum_found_beside_its_exponentials(dtype, monkeypatch):
    """Rows that begin with minus infinities, have nothing else, or end in what is no number."""
    never_held(monkeypatch)
    x = normal(7, 3000).to(dtype)
    x[0, :2500] = x[1] = float("-inf")
    x[2, 2999] = float("nan")
    x[3, 7] = float("inf")
    x[4, 1000:] *= 50
    x[5] = -3e38
    executor = check(lambda x: (torch.softmax(x, 1), torch.log_softmax(x, 1)), x, tolerance=COARSE if dtype == torch.bfloat16 else None)
    assert any("_rise" in kernel.text for kernel in executor.kernels)
    executor = check(lambda x: torch.logsumexp(x.float(), 1), x)
    assert any("_rise" in kernel.text for kernel in executor.kernels)


def test_positions_beside_numbers_of_64_bits():
    at = torch.tensor([3, -1, 2**40, -(2**40), 2**32 + 3, 2**31, -(2**31) - 1])

    def compared(at):
        place = torch.arange(9)
        return (place < at[:, None]) | (at[:, None] == place), torch.where(place - at[:3, None] > 1, place, at[:3, None])

    def apart(x, at):
        return torch.where(torch.arange(9)[:, None] - torch.arange(9) >= at[0], x, 0.0)

    check(compared, at)
    check(apart, normal(9, 9), at)


def test_numbers_are_arguments():
    check(lambda x, n, f: x * f + n, normal(40), 3, 2.5, kernels=1)


def test_views_and_slices():
    check(lambda x: torch.cat([x[:, ::2].t(), x[:, 1::2].t()], 0) + x.t().flip(0), normal(12, 20))


def test_attention_in_pieces():
    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v

    check(attention, normal(2, 10, 16), normal(2, 12, 16), normal(2, 12, 16))


def test_cross_entropy_writes_no_matrix():
    def f(x, y):
        return -torch.log_softmax(x, -1).gather(1, y.unsqueeze(1)).squeeze(1).mean()

    check(f, normal(16, 100), torch.randint(0, 100, (16,)))


def adam(parameter, gradient, mean, square):
    mean = mean.lerp(gradient, 0.1)
    square = square * 0.999 + gradient * gradient * 0.001
    return parameter - 0.01 * mean / (square.sqrt() + 1e-8), mean, square


def test_an_optimizers_step_writes_to_its_inputs():
    inputs = [normal(37, 53), normal(37, 53), normal(37, 53), normal(37, 53).abs()]
    schedule = written_in_place(fuse(lower(record(adam, inputs), inputs)), ((0, 0), (2, 1), (3, 2)))
    assert not schedule.allocations
    wanted = adam(*inputs)
    Executor(schedule, launchers_for, SMALL)(*inputs)
    for place, want in zip((0, 2, 3), wanted, strict=True):
        torch.testing.assert_close(inputs[place], want)


@pytest.mark.parametrize("start", [0, 3, 60])
def test_a_token_of_a_cache_is_written_alone(start):
    def write(cache, token):
        return cache.slice_scatter(token, 2, start, start + 2)

    inputs = [normal(2, 3, 62, 8), normal(2, 3, 2, 8)]
    schedule = written_in_place(fuse(lower(record(write, inputs), inputs)), ((0, 0),))
    (group,) = schedule.steps
    assert group.row_count == 2 * 3 * 2 * 8
    wanted = write(*inputs)
    Executor(schedule, launchers_for, SMALL)(*inputs)
    torch.testing.assert_close(inputs[0], wanted)


@pytest.mark.parametrize("shape", [(3, 40000), (3, 40960), (1, 100_003), (2, 9, 30_000)])
@pytest.mark.parametrize("shift", [0.0, 300.0])
def test_variance_reads_once(shape, shift):
    x = normal(*shape) + shift
    executor = check_on_gpu(lambda x: (x.var(-1), x.var(-1, correction=0)), x, rtol=2e-4, atol=2e-4)
    assert executor.kernels[0].text.count(f"tl.load({executor.kernels[0].parameters[0].name} ") == 1


def test_variance_of_what_has_none_and_of_infinities():
    x = torch.zeros(3, 50000)
    x[1, 7], x[2, 49999] = float("inf"), float("nan")
    check(lambda x: x.var(-1), x)


def test_variance_down_the_columns_reads_once():
    x = normal(5000, 40) + 3
    executor = check_on_gpu(lambda x: x.var(0), x, rtol=1e-4, atol=1e-4)
    assert executor.kernels[0].text.count("tl.load(x") == 1


def test_normalization_of_long_rows_reads_twice():
    x, weight, bias = normal(2, 8, 100, 90) + 2, normal(8), normal(8)
    executor = check(lambda x, w, b: F.group_norm(x, 2, w, b), x, weight, bias, kernels=1)
    assert executor.kernels[0].text.count("tl.load(x") in (1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_short_loop_inside_the_innermost(dtype):
    x = normal(2, 3, 18, 22).to(dtype)
    (kernel,) = check_on_gpu(lambda x: F.pixel_unshuffle(x, 2) * 2, x).kernels
    assert "- lane_4 * 2" in kernel.text
    check_on_gpu(lambda x: x.view(5, 7, 3).permute(2, 0, 1).contiguous() + 1, normal(5, 21).to(dtype))


def test_rows_side_by_side_walked_down():
    """More than one program for each multiprocessor, and columns that no step divides."""
    x, mask = normal(3, 300, 90), normal(3, 300, 1)
    executor = check_on_gpu(lambda x, mask: ((x * mask).sum(1), x.amax(1), x.argmax(1), x.prod(1)), x, mask, rtol=1e-4, atol=1e-5)
    assert all(" in range(0, 304, 8)" in kernel.text for kernel in executor.kernels)


def test_parts_written_one_after_another():
    """Columns in one kernel, each read as it was just written; then a part whose rows lie two apart, and one of the shifted elements."""

    def function(x, y):
        x = x * 2
        for column in range(1, 5):
            x = torch.select_scatter(x, x[:, column - 1] * 0.5 + y, 1, column)
        shifted = x[1:, 2:] + x[:-1, :-2]
        x = torch.slice_scatter(x, x[::2] * y[::2, None], 0, 0, 9, 2)
        return torch.slice_scatter(x, torch.slice_scatter(x[1:], shifted, 1, 0, 3), 0, 1, 9), shifted.sum(0)

    executor = check(function, normal(9, 5), normal(9))
    assert sum(bool(step.parts) for step in executor.schedule.steps) >= 3


def test_parts_of_an_input_that_does_not_change():
    def function(x, y):
        first = torch.select_scatter(torch.select_scatter(torch.select_scatter(x, y, 1, 1), y * 2, 1, 3), x[:, 1] + y, 1, 0)
        return first, torch.select_scatter(torch.select_scatter(first, y - 1, 1, 2), y, 1, 1)

    check(function, normal(9, 5), normal(9))
