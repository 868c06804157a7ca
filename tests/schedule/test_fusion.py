"""What shares a kernel, and what is said where it does not."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall, Load, Reduce, Store
from dynascope.loops.printing import print_program
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup, NotFused, Schedule
from dynascope.schedule.passes import arrange
from dynascope.schedule.printing import print_schedule
from interpreting import run_schedule
from recording import record
from torch.nn import functional


def schedule(function, *inputs) -> Schedule:
    return fuse(lower(record(function, list(inputs))))


def groups(function, *inputs) -> list[FusionGroup]:
    return [step for step in schedule(function, *inputs).steps if isinstance(step, FusionGroup)]


def loads(group: FusionGroup) -> list[Load]:
    return [operation for operation in group.body if isinstance(operation, Load)]


X, W = torch.randn(16, 32), torch.randn(32)


def test_a_chain_is_one_kernel_that_reads_each_input_once() -> None:
    (group,) = groups(lambda x, w: functional.gelu(x * w + 1).tanh(), X, W)
    assert [op.buffer for op in loads(group)] == ["x", "w"] and len(group.writes) == 1


def test_contiguous_loops_merge() -> None:
    (group,) = groups(lambda x: x + 1, torch.randn(2, 3, 4))
    assert [s.extent for s in group.rows] == [24]


def test_softmax_is_one_kernel_of_three_passes() -> None:
    (group,) = groups(lambda x: x.softmax(-1), X)
    assert arrange(group.body, group.columns).pass_count == 3
    assert len(loads(group)) == 1


def test_norm_with_residual_is_one_kernel() -> None:
    (group,) = groups(lambda x, w: functional.layer_norm(x + 1, (32,), w) * 2 + x, X, W)
    assert sum(isinstance(op, Reduce) for op in group.body) == 2
    assert [op.buffer for op in loads(group)] == ["x", "w"]


def test_what_several_kernels_widen_goes_through_memory_narrow() -> None:
    """Rows and columns are summed by different kernels, of a value that was rounded to 16 bits."""

    def both(x):
        y = (x.exp() * x.sin()).bfloat16().float()
        return y.sum(0), (y * y).sum(1)

    made = schedule(both, torch.randn(64, 32))
    between = [name for step in made.steps for name in step.writes if made.buffers[name].sizes == (64, 32)]
    assert [made.buffers[name].dtype for name in between] == [torch.bfloat16]


def test_views_cost_nothing() -> None:
    (group,) = groups(lambda x: (x.t()[1:] * 2).reshape(31, 4, 4).permute(2, 0, 1).exp(), X)
    assert len(group.body) == 5


def test_group_norm_shape_splits_loops() -> None:
    def f(x):
        rows = x.reshape(2, 4, 3, 5)
        return ((rows - rows.mean((2, 3), keepdim=True)).reshape(2, 12, 5)) * 2

    (group,) = groups(f, torch.randn(2, 12, 5))
    assert [s.extent for s in group.rows] == [8] and [s.extent for s in group.columns] == [15]


def test_siblings_share_a_kernel() -> None:
    (group,) = groups(lambda x: (x.exp(), x.tanh()), X)
    assert len(group.writes) == 2


def test_a_kernel_takes_as_many_arguments_as_a_gpu_can_pass() -> None:
    found = groups(lambda x, *others: [x + other for other in others], X, *(torch.randn(16, 32) for _ in range(300)))
    assert 3 <= len(found) <= 6
    assert all(len({*group.reads, *group.writes}) <= 256 for group in found)


def test_unused_values_are_not_computed() -> None:
    (group,) = groups(lambda x: (x.exp(), x + 1)[1:], X)
    assert not any(getattr(op, "name", "") == "exp" for op in group.body)


def test_reductions_over_other_dimensions_say_so() -> None:
    result = schedule(lambda x: x.exp().sum(0) + x.exp().sum(1).sum(), torch.randn(8, 8))
    codes = {b.reason.code for b in result.borders if isinstance(b, NotFused)}
    assert codes and all(b.reason.message() and b.reason.remedy() for b in result.borders if isinstance(b, NotFused))


def test_nothing_runs_between_what_must_wait() -> None:
    def f(x):
        a = x.exp()
        return a + torch.sort(a, 1)[0]

    steps = schedule(f, X).steps
    assert [isinstance(step, ExternCall) for step in steps] == [False, True, False]


def test_memory_is_taken_over() -> None:
    def f(x):
        for _ in range(4):
            x = torch.sort(x.exp(), 1)[0]
        return x

    plan = schedule(f, X)
    assert any(allocation.reuses for allocation in plan.allocations)


def test_graphs_that_write_in_place_stay_library_calls() -> None:
    assert not groups(lambda x: x.clone().add_(1) * 2, X)


def test_texts_are_deterministic_and_name_lines() -> None:
    def f(x):
        return x.softmax(-1) * 2

    program = lower(record(f, [X]))
    text = print_schedule(fuse(program))
    assert text == print_schedule(fuse(lower(record(f, [X]))))
    assert f"# test_fusion.py:{f.__code__.co_firstlineno + 1}: return x.softmax(-1) * 2" in text
    assert "reduction(i0: 16, c1: 32)" in print_program(program)


def test_stores_do_not_overlap_loads() -> None:
    for group in groups(lambda x: (x.exp().sum(1), x.exp()), X):
        stored = {op.buffer for op in group.body if isinstance(op, Store)}
        assert not stored & set(group.reads)


def on_a_gpu(function, *inputs) -> Schedule:
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    return fuse(lower(graph))


def test_what_is_put_together_from_windows_is_reduced_by_another_kernel() -> None:
    """On a GPU. The gradients that the windows read are added before, not at each of the places."""

    def pooled_gradient(x, first, second, places):
        pool = torch.ops.aten.max_pool2d_with_indices_backward
        g = pool(first + second, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)
        g = torch.where(x > 0, g, 0)
        return g - g.mean((0, 2, 3), keepdim=True)

    x = torch.randn(2, 3, 8, 8)
    values, places = functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    found = on_a_gpu(pooled_gradient, x, values, torch.randn_like(values), places)
    added, gathered, reduced = (step for step in found.steps if isinstance(step, FusionGroup))
    assert len(added.reads) == 2 and len(gathered.reads) == 3 and reduced.reads == gathered.writes
    assert [border.reason.code for border in found.borders if isinstance(border, NotFused)].count("reduces-gathered") == 1
    (result,) = run_schedule(found, [x, values, torch.ones_like(values), places])
    torch.testing.assert_close(result, pooled_gradient(x, values, torch.ones_like(values), places))


def kernels_of(found: Schedule) -> list[FusionGroup]:
    return [step for step in found.steps if isinstance(step, FusionGroup)]


def test_a_sum_of_parts_that_lie_across_one_another_is_another_kernel() -> None:
    """On a GPU: gradients of queries and of transposed keys, joined for a product. Parts that lie alike are added up as they are joined."""

    def gradients(q, k, w, first, second):
        joined = torch.cat([q @ first, second @ k], 0).view(2, 4, 6, 4).permute(1, 2, 0, 3).reshape(24, 8)
        return joined @ w, joined.sum(0)

    def transposed(q, k, w, first, second):
        joined = torch.cat([q @ first, (k.mT @ second.mT).mT], 0).view(2, 4, 6, 4).permute(1, 2, 0, 3).reshape(24, 8)
        return joined @ w, joined.sum(0)

    inputs = torch.randn(4, 6, 4), torch.randn(4, 4, 4), torch.randn(8, 3), torch.randn(4, 4, 4), torch.randn(4, 6, 4)
    for function, count in ((gradients, 1), (transposed, 2)):
        found = on_a_gpu(function, *inputs)
        assert len(kernels_of(found)) == count
        torch.testing.assert_close(run_schedule(found, inputs), function(*inputs))


def test_parts_that_are_put_together_themselves_are_made_before_they_are_joined() -> None:
    """On a GPU, where each place of the whole would read all that each part is made of."""

    def rotated(x, cosine, sine):
        turned = torch.cat([-x[..., 4:8], x[..., :4]], -1)
        return torch.cat([x[..., :8] * cosine + turned * sine, x[..., 8:]], -1)

    def side_by_side(q, k, v, cosine, sine):
        return torch.cat([rotated(q, cosine, sine), rotated(k, cosine, sine), v], -1) * 2

    inputs = *(torch.randn(3, 5, 12) for _ in range(3)), torch.randn(5, 8), torch.randn(5, 8)
    found = on_a_gpu(side_by_side, *inputs)
    *_, joined = kernels_of(found)
    assert sum(isinstance(operation, Load) and operation.guard is not None for operation in joined.body) == 3
    torch.testing.assert_close(run_schedule(found, inputs)[0], side_by_side(*inputs))


def test_many_parts_side_by_side_are_joined_by_the_library() -> None:
    """On a processor: each lane of a vector would look for its part."""

    def joined(*parts):
        return torch.cat(parts, 1) * 2

    def joins(images) -> bool:
        return any(isinstance(step, ExternCall) for step in schedule(joined, *images).steps)

    images = [torch.randn(2, 3, 4, 4) for _ in range(5)]
    last = [image.contiguous(memory_format=torch.channels_last) for image in images]
    assert joins(last) and not joins(images) and not joins(last[:3])


def test_groups_that_one_operation_reads_of_become_one() -> None:
    """Gradients of two norms of one tensor: rows of each are summed up by themselves, and meet at the end."""

    def gradients(x, first, second):
        normal = x * 2 - 1
        one = first - first.sum(1, keepdim=True) - normal * (first * normal).sum(1, keepdim=True)
        return one + second - second.sum(1, keepdim=True)

    inputs = X, torch.randn(16, 32), torch.randn(16, 32)
    found = schedule(gradients, *inputs)
    (group,) = found.steps
    assert len(loads(group)) == 3 and len(group.writes) == 1
    torch.testing.assert_close(run_schedule(found, list(inputs))[0], gradients(*inputs))


def test_groups_with_a_step_between_them_stay_two() -> None:
    """A library call reads of the first, and the second reads its result."""

    def program(x, w):
        first = x.sum(1, keepdim=True) / 32 + x
        second = (first @ w).sigmoid() * 3
        return first * 2 + second

    inputs = X, torch.randn(32, 32)
    found = schedule(program, *inputs)
    assert [type(step) for step in found.steps] == [FusionGroup, ExternCall, FusionGroup]
    torch.testing.assert_close(run_schedule(found, list(inputs))[0], program(*inputs))


def test_what_is_scattered_is_computed_where_it_goes() -> None:
    def summed(x, source, target):
        return torch.zeros(5, 32).index_add(0, target, x[source] * 2)

    inputs = X, torch.tensor([3, 0, 3, 15]), torch.tensor([4, 4, 0, 1])
    found = schedule(summed, *inputs)
    zeros, scattered = found.steps
    assert set(scattered.group.reads) == {"x", "source", "target"} and not zeros.reads
    torch.testing.assert_close(run_schedule(found, list(inputs))[0], summed(*inputs))


def test_equal_parts_side_by_side_are_written_by_one_loop() -> None:
    """Where nobody but the caller or the library reads them: a kernel reads the part that it wants."""

    def gated(gradient, x):
        value, gate = x.chunk(2, -1)
        opened = gate.sigmoid()
        return torch.cat([gradient * opened, gradient * value * (1 - opened)], -1)

    inputs = torch.randn(16, 16), X
    found = schedule(gated, *inputs)
    (group,) = found.steps
    stores = [op for op in group.body if isinstance(op, Store)]
    assert len(stores) == 2 and sum(getattr(op, "name", "") == "sigmoid" for op in group.body) == 1
    assert not any(isinstance(op, Load) and op.guard is not None for op in group.body)
    torch.testing.assert_close(run_schedule(found, list(inputs))[0], gated(*inputs))
    for dimension in (0, 1, 2):
        joined = lambda a, b, d=dimension: torch.cat([a, b, a], d)  # noqa: E731
        parts = torch.randn(3, 4, 5), torch.randn(4, 3, 5).transpose(0, 1)
        torch.testing.assert_close(run_schedule(schedule(joined, *parts), list(parts))[0], joined(*parts))
    turned = lambda a, b: torch.cat([-b, a], -1) * 2 + 1  # noqa: E731
    (rotated,) = on_a_gpu(turned, torch.randn(4, 8), torch.randn(4, 8)).steps
    assert len([op for op in rotated.body if isinstance(op, Store)]) == 1


def test_what_several_read_a_piece_each_of_is_computed_where_it_is_read() -> None:
    """Of the sum of two large tensors, too: no element is computed twice. Not where one reads more than its piece."""

    def cell(x, y, state):
        new, reset, update, output = (x + y).chunk(4, 1)
        return update.sigmoid() * new.tanh() + reset.sigmoid() * state, output.sigmoid()

    inputs = torch.randn(16, 128), torch.randn(16, 128), X
    found = schedule(cell, *inputs)
    (group,) = found.steps
    assert len(loads(group)) == 9
    torch.testing.assert_close(run_schedule(found, list(inputs)), cell(*inputs))

    def again(x, y, state):
        both = x + y
        return both[:, :32].tanh() + state, both.sigmoid()

    assert len(groups(again, *inputs)) == 2


def test_four_equal_parts_are_written_by_one_loop_on_a_processor() -> None:
    def gradient(x, y):
        return torch.cat([x * y, x - y, y * 2, x], 1)

    found = schedule(gradient, X, X.cos())
    (group,) = found.steps
    assert len([op for op in group.body if isinstance(op, Store)]) == 4
    torch.testing.assert_close(run_schedule(found, [X, X.cos()])[0], gradient(X, X.cos()))
    narrow = schedule(gradient, X[:, :3].clone(), X[:, 3:6].clone())
    assert any(isinstance(step, ExternCall) for step in narrow.steps)


def test_what_is_converted_first_is_read_at_the_same_places() -> None:
    """Though the places are quotients of the loops, under a condition: that of a converted element is the element's own."""

    def pooled_gradient(x, gradient, places):
        pool = torch.ops.aten.max_pool2d_with_indices_backward
        return pool(gradient, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places.to(torch.int64))

    x = torch.randn(2, 4, 16, 16)
    gradient, places = torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    inputs = x, gradient, places.to(torch.int16)
    found = schedule(pooled_gradient, *inputs)
    (group,) = found.steps
    read = {name: {op.index for op in loads(group) if op.buffer == name} for name in ("gradient", "places")}
    assert read["gradient"] == read["places"] and read["places"]
    torch.testing.assert_close(run_schedule(found, list(inputs))[0], pooled_gradient(*inputs))


def test_a_kernel_of_a_gpu_has_few_buffers() -> None:
    """Of a hundred tensors a processor's loop takes all."""

    def summed(*tensors):
        found = tensors[0]
        for tensor in tensors[1:]:
            found = (found + tensor.exp()).tanh()
        return found

    inputs = [torch.randn(8, 16) for _ in range(100)]
    found = on_a_gpu(summed, *inputs)
    assert len(schedule(summed, *inputs).steps) == 1 < len(found.steps)
    assert all(len({*step.reads, *step.writes}) <= 64 for step in found.steps)
    torch.testing.assert_close(run_schedule(found, inputs)[0], summed(*inputs))


def test_few_channels_are_written_out() -> None:
    """On a GPU: each thread has the channels of a place, of which the neighbours lie beside it."""
    x = torch.randn(2, 5, 64, 48)
    x[0, 2, 0, 0] = x[0, 4, 0, 0] = x[1, 0, 0, 0] = float("nan")
    x[1, :, 1] = 1.5

    def over_channels(x):
        best, place = x.max(1)
        return x.softmax(1), best, place, x.argmin(1), x.prod(1), (x > 1).any(1), x.sum(1), (x < 9).all(1)

    found = on_a_gpu(over_channels, x)
    assert all(not step.columns for step in found.steps)
    for ours, wanted in zip(run_schedule(found, [x]), over_channels(x), strict=True):
        torch.testing.assert_close(ours, wanted, equal_nan=True)
    (last,) = on_a_gpu(lambda x: x.softmax(-1), torch.randn(4096, 5)).steps
    (long,) = on_a_gpu(lambda x: x.sum(1), torch.randn(2, 200, 64, 48)).steps
    assert last.columns and long.columns


def test_the_library_scatters_into_what_dies() -> None:
    """Additions of half types are the library's: it adds to the zeros themselves, not to a copy."""

    def summed(x, places):
        return torch.zeros(5, 32, dtype=torch.bfloat16).index_put([places], x, True)

    found = schedule(summed, torch.randn(3, 32, dtype=torch.bfloat16), torch.tensor([0, 3, 3]))
    (call,) = (step for step in found.steps if isinstance(step, ExternCall))
    assert str(call.operator) == "aten.index_put_.default" and found.outputs[0].buffer == call.arguments[0].buffer
