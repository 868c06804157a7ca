"""Inputs in a GPU's memory are changed in place by kernels that come after everything that allocates."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall
from dynascope.schedule.fusion import fuse
from dynascope.schedule.in_place import written_in_place
from recording import record


def scheduled(function, inputs, mutations, device="cuda", host=()):
    """The schedule for inputs on the device, but for those at the places `host`, which stay on the CPU with all made of them alone."""
    graph = record(function, list(inputs))
    for position, node in enumerate(graph.graph.nodes):
        there = position not in host if node.op == "placeholder" else not node.all_input_nodes
        there = there or any(other.meta["device"].type == device for other in node.all_input_nodes)
        node.meta["device"] = torch.device(device) if there else torch.device("cpu")
    return written_in_place(fuse(lower(graph), None, mutations), mutations)


def changed_in_place(schedule, mutations):
    inputs = schedule.program.inputs
    return [schedule.outputs[output].buffer == inputs[position].name for position, output in mutations]


def step(x, weight, mean, bias, other):
    """A layer's gradients and updates, as an optimizer makes them: (weight, mean, bias, the gradients, the loss)."""
    y = (x @ weight.t() + bias).tanh()
    tangent = (1 - y * y) * y
    gradient, total = tangent.t() @ x, tangent.sum(0)
    mean = mean.lerp(gradient, 0.1)
    return weight - 0.01 * mean, mean, bias - 0.01 * total, gradient, total, (y @ other).sum()


GIVEN = [torch.randn(*sizes) for sizes in ((6, 8), (16, 8), (16, 8), (16,), (16, 4))]
STEP = ((1, 0), (2, 1), (3, 2))


def test_updates_come_last_and_allocate_nothing():
    schedule = scheduled(step, GIVEN, STEP)
    assert changed_in_place(schedule, STEP) == [True] * 3
    last = [bool({"weight", "mean", "bias"}.intersection(getattr(each, "writes", ()))) for each in schedule.steps]
    assert last == [False] * last.index(True) + [True] * last.count(True)
    inputs = {buffer.name for buffer in schedule.program.inputs}
    assert all(set(each.writes) <= inputs for each, is_last in zip(schedule.steps, last, strict=True) if is_last)


def test_a_gradient_is_made_by_a_kernel_of_its_own():
    """Not by that of the update: it would have to wait with what the gradient is made of."""
    schedule = scheduled(step, GIVEN, STEP)
    (maker,) = (each for each in schedule.steps if schedule.outputs[4].buffer in getattr(each, "writes", ()))
    assert "bias" not in maker.writes


def test_what_a_call_still_reads_does_not_wait():
    def program(x, y):
        x = x * 2
        return x, x @ y

    schedule = scheduled(program, [torch.randn(4, 4), torch.randn(4, 4)], ((0, 0),))
    assert changed_in_place(schedule, ((0, 0),)) == [False]
    assert isinstance(schedule.steps[-1], ExternCall)


@pytest.mark.parametrize(("device", "kernels"), [("cuda", 1), ("cpu", 3)])
def test_updates_of_one_size_share_a_kernel_on_a_gpu(device, kernels):
    def program(a, b, c, g, h, k):
        return a - 0.1 * g, b - 0.1 * h, c - 0.1 * k

    mutations = ((0, 0), (1, 1), (2, 2))
    schedule = scheduled(program, [torch.randn(8, 8) for _ in range(6)], mutations, device)
    assert len(schedule.steps) == kernels and changed_in_place(schedule, mutations) == [True] * 3


def test_a_kernel_takes_no_more_company_than_it_has_registers_for():
    def program(*tensors):
        return [a - 0.1 * b for a, b in zip(tensors[::2], tensors[1::2], strict=True)]

    inputs, mutations = [torch.randn(8, 8) for _ in range(120)], [(2 * n, n) for n in range(60)]
    schedule = scheduled(program, inputs, mutations)
    assert all(changed_in_place(schedule, mutations)) and 2 <= len(schedule.steps) <= 12


@pytest.mark.parametrize(("host", "devices"), [((4, 5), ["cpu", "cuda"]), ((), ["cuda", "cuda"])])
def test_counters_share_a_kernel(host, devices):
    """Adam's: a number for each parameter, of which its kernel is given what it makes."""

    def program(p, q, g, h, one, other):
        one, other = one + 1, other + 1
        return p - g / (1 - 0.9**one), q - h / (1 - 0.9**other), one, other

    inputs = [*(torch.randn(8, 8) for _ in range(4)), torch.tensor(3.0), torch.tensor(4.0)]
    mutations = ((0, 0), (1, 1), (4, 2), (5, 3))
    schedule = scheduled(program, inputs, mutations, host=host)
    assert changed_in_place(schedule, mutations) == [True] * 4
    assert [each.device.type for each in schedule.steps if not isinstance(each, ExternCall)] == devices
