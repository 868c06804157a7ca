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


def test_many_parts_side_by_side_are_joined_by_the_library() -> None:
    """On a processor: each lane of a vector would look for its part."""

    def joined(*parts):
        return torch.cat(parts, 1) * 2

    def joins(images) -> bool:
        return any(isinstance(step, ExternCall) for step in schedule(joined, *images).steps)

    images = [torch.randn(2, 3, 4, 4) for _ in range(5)]
    last = [image.contiguous(memory_format=torch.channels_last) for image in images]
    assert joins(last) and not joins(images) and not joins(last[:3])
