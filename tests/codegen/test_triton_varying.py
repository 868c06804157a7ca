"""One Triton kernel for all sizes: programs emitted once at a hint, run in Triton's interpreter at other sizes."""

from __future__ import annotations

import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "loops"))

import pytest
import torch

from triton_interpreter import launchers_for  # isort: skip
from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.emit import emit_triton
from dynascope.loops.lower import lower
from dynascope.schedule import row_sums
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup
from symbolic_graphs import make_inputs, symbolic_graph, tensor
from triton_executor import Executor
from varying_programs import NUMBERS, PROGRAMS, TWO_ROOTS

SMALL = DeviceModel(multiprocessors=2)
ONE = [{"s0": size} for size in (2, 17, 64, 300)]
TWO = [{"s0": a, "s1": b} for a, b in ((2, 3), (64, 7), (17, 100))]


def run_at(function, inputs, hints, others, **options):
    graph = symbolic_graph(function, inputs, hints, **options)
    executor = Executor(fuse(lower(graph.module)), launchers_for, SMALL)
    served = [values for values in [hints, *others] if graph.admits(values)]
    for values in served:
        wanted = function(*make_inputs(inputs, values))
        results = executor(*graph.arguments(values))
        for result, want in zip(results, wanted if isinstance(wanted, (list, tuple)) else (wanted,), strict=True):
            if not isinstance(want, torch.Tensor):
                assert result == want
                continue
            # The interpreter cuts f32 to bf16 where the device rounds.
            coarse = 0.1 if want.dtype in (torch.bfloat16, torch.float16) else 2e-4
            torch.testing.assert_close(result, want, rtol=coarse, atol=coarse, equal_nan=True)
    assert len(served) > 1
    return graph, executor


@pytest.mark.parametrize("hint", [7, 1001])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_size_varies(name, hint):
    """The sizes at hand decide which blocks are taken; the kernel is right for all."""
    graph, _ = run_at(*PROGRAMS[name], {"s0": hint}, ONE)
    assert not graph.fixed()


@pytest.mark.parametrize("name", TWO_ROOTS)
def test_two_sizes_vary(name):
    graph, _ = run_at(*TWO_ROOTS[name], {"s0": 7, "s1": 12}, TWO)
    assert not graph.fixed()


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_varies(name):
    graph, _ = run_at(*NUMBERS[name], {"n": 3}, [{"n": n} for n in (2, 5, 17)], features=("(72 - n) // 3",))
    assert not graph.fixed()


@pytest.mark.parametrize("hint", [9001, 20001])
@pytest.mark.parametrize("reduce", ["sum", "amax", "argmax", "softmax"])
def test_long_rows_are_split_or_looped_over(reduce, hint):
    graph, executor = run_at(lambda x: getattr(x, reduce)(1), [tensor(2, "s0")], {"s0": hint}, [{"s0": n} for n in (9001, 16384, 30000)])
    assert not graph.fixed()
    assert all("range(" in kernel.text or hint < 16384 for kernel in executor.kernels)


def test_sums_down_the_columns_beside_any_number_of_rows(monkeypatch):
    monkeypatch.setattr(row_sums, "PROGRAMS", 3)
    monkeypatch.setattr(row_sums, "FEWEST_ROWS", 8)
    monkeypatch.setattr(row_sums, "_on_gpu", lambda group: True)

    def gradients(x, weight, tangent):
        return torch.softmax(tangent * weight * x.exp(), -1), (tangent * x.exp()).sum(0), tangent.sum(0) + 1

    inputs = [tensor("s0", 24), tensor(24), tensor("s0", 24)]
    graph, executor = run_at(gradients, inputs, {"s0": 7}, [{"s0": n} for n in (2, 3, 10, 31)])
    assert not graph.fixed()
    assert len(executor.kernels) == 2
    inputs = [tensor("s0", "s1"), tensor("s1"), tensor("s0", "s1")]
    graph, executor = run_at(gradients, inputs, {"s0": 70, "s1": 24}, [{"s0": n, "s1": m} for n, m in ((2, 3), (31, 32), (9, 17))])
    assert not graph.fixed() and "s1 <= 32" in graph.relations()
    assert len(executor.kernels) == 2


def test_blocks_before_the_last_need_no_mask():
    """Long rows are looped over twice: whole blocks, then what is left, which may be nothing."""
    sizes = [{"s0": n} for n in (40960, 20480, 3, 33000)]
    graph, executor = run_at(lambda x: (x.log_softmax(-1), x.argmax(-1)), [tensor(5, "s0")], {"s0": 40001}, sizes)
    assert not graph.fixed()
    first, second = re.findall(r"for start in (?:tl\.)?range\((.*)\):\n", executor.kernels[0].text)[:2]
    assert first.startswith("0, whole_0, ") and second.startswith("whole_0, ")


def test_columns_walked_down_at_any_height():
    run_at(lambda x: x.sum(0), [tensor("s0", 40)], {"s0": 5000}, [{"s0": n} for n in (4097, 6000, 10001)])


def kernels_of(function, inputs, hints):
    graph = symbolic_graph(function, inputs, hints)
    steps = fuse(lower(graph.module))
    return graph, [emit_triton(step, steps.buffers, SMALL) for step in steps.steps if isinstance(step, FusionGroup)]


def described(kernels):
    """But for what kernels are told of the numbers at hand, which the launcher sees to."""
    return [(k.text, [str(n) for n in k.grid], k.warps, [p.kind for p in k.parameters]) for k in kernels]


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_sizes_at_hand_decide_nothing(name):
    """They may be a first try."""
    graph, kernels = kernels_of(*PROGRAMS[name], {"s0": 7})
    for size in (3, 9, 15):
        other, others = kernels_of(*PROGRAMS[name], {"s0": size})
        if graph.admits({"s0": size}) and other.admits({"s0": 7}):
            assert described(others) == described(kernels), size


def told_multiples(program, inputs, hints):
    """What the one kernel takes numbers for multiples of. Nothing is relied on for it."""
    graph, (kernel,) = kernels_of(program, inputs, hints)
    assert not any("%" in relation for relation in graph.relations())
    return {p.source: dict(kernel.divisors)[p.name] for p in kernel.parameters if not p.is_pointer and p.name in dict(kernel.divisors)}


def test_kernels_are_told_what_begins_and_ends_at_whole_vectors():
    turned = lambda x: x.t().contiguous() + 1  # noqa: E731
    assert told_multiples(turned, [tensor(40, "s0")], {"s0": 64}) == {"s0": 16}
    assert told_multiples(turned, [tensor(40, "s0")], {"s0": 63}) == {}
    assert told_multiples(lambda x: x + 1, [tensor("s0", "s1")], {"s0": 40, "s1": 17}) == {"s0": 8}
    # Vectors of two are not worth kernels of their own, but the square of such a number makes some of four. Small ones may be a first try.
    assert told_multiples(turned, [tensor(40, "s0")], {"s0": 66}) == told_multiples(turned, [tensor(40, "s0")], {"s0": 8}) == {}
    assert told_multiples(lambda x: x.mean((2, 3)), [tensor(64, 32, "s0", "s0")], {"s0": 18}) == {"s0": 2}
    # Where they do so whatever the number is, nothing is: another batch needs no kernels of its own.
    for function in (lambda x: x + 1, lambda x: x.softmax(-1), lambda x: x.sum(0), lambda x: x.sum()):
        assert told_multiples(function, [tensor("s0", 64)], {"s0": 32}) == {}


def test_rows_with_much_to_do_are_held_in_the_next_power_of_two():
    softmax = lambda x: torch.softmax(x, -1)  # noqa: E731
    inputs = [tensor("s0", "s1")]
    for rows, columns, block in ((64, 10, 128), (1 << 17, 10, 16), (1 << 14, 1500, 2048), (64, 1500, 4096)):
        graph, (kernel,) = kernels_of(softmax, inputs, {"s0": rows, "s1": columns})
        assert f"tl.arange(0, {block})" in kernel.text
        assert f"s1 <= {block}" in graph.relations()


def test_positions_beyond_int32_are_another_kernel():
    program = lambda x: x + 1  # noqa: E731
    _, (narrow,) = kernels_of(program, [tensor("s0", 64)], {"s0": 64})
    assert [p.kind for p in narrow.parameters][-1] == "i32"


@pytest.mark.parametrize("kind", ["softmax", "logsumexp", "amax", "amin", "argmax", "argmin"])
def test_rows_of_infinities_and_of_no_number(kind):
    """What stands past a row's end is no element of it, also where all of the row is what stands there."""
    function = lambda x: getattr(x, kind)(1)  # noqa: E731
    graph = symbolic_graph(function, [tensor("s0", "s1")], {"s0": 5, "s1": 12})
    executor = Executor(fuse(lower(graph.module)), launchers_for, SMALL)
    for values in ({"s0": 5, "s1": 12}, {"s0": 5, "s1": 31}, {"s0": 7, "s1": 3}):
        arguments = graph.arguments(values)
        (x,) = (each for each in arguments if isinstance(each, torch.Tensor))
        x[0], x[1], x[2], x[3, 1], x[4, -1] = -INFINITY, INFINITY, float("nan"), -INFINITY, float("nan")
        for result, want in zip(executor(*arguments), [function(x)], strict=True):
            torch.testing.assert_close(result, want, equal_nan=True)


INFINITY = float("inf")
