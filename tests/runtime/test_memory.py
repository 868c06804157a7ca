"""What is held while a graph runs: nothing longer than somebody reads it, in the forward pass and in the backward pass."""

from __future__ import annotations

import weakref
from dataclasses import replace

import dynascope
import pytest
import torch
from dynascope.codegen.module import emit
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.schedule.fusion import fuse
from recording import record

pytestmark = pytest.mark.compiler


def plan_of(function, *inputs):
    return fuse(lower(record(function, list(inputs))))


def chain(x, *weights):
    for weight in weights:
        x = (x @ weight).relu()
    return x


def test_the_peak_counts_what_library_calls_make() -> None:
    schedule = plan_of(chain, torch.zeros(8, 32), *torch.zeros(4, 32, 32))
    one = 8 * 32 * 4
    assert schedule.peak_bytes == 2 * one == max(schedule.held)


def test_dead_memory_does_not_wait_for_its_next_use_where_that_costs() -> None:
    def f(x, wide, w):
        big = x.exp()  # of the layout of what comes at the end, and dead in between
        small = (big @ w).sum()
        middle = (wide * small) @ w  # the peak
        return (x * middle.sum()).sin() @ w

    schedule = plan_of(f, torch.zeros(64, 64), torch.zeros(6400, 64), torch.zeros(64, 64))
    assert schedule.peak_bytes == max(schedule.held) == 2 * 6400 * 64 * 4
    first, last = (a.buffer for a in schedule.allocations if schedule.buffers[a.buffer].sizes == (64, 64))
    assert (first, last) not in [(a.reuses, a.buffer) for a in schedule.allocations]


def test_inputs_in_a_list_are_free_when_they_have_been_read() -> None:
    def f(x, v, w):
        return ((x * 2) @ v).relu() @ w

    inputs = [torch.randn(8, 8) for _ in range(3)]
    expected = f(*inputs)
    module = emit(fuse(lower(record(f, inputs))), empties_its_list=True)
    seen, references = [], [weakref.ref(value) for value in inputs]

    def looked(*operands):
        seen.append([reference() is not None for reference in references])
        return torch.mm(*operands)

    built = build(replace(module, values={**module.values, "call_mm": looked}))
    result = built.call_with_list(inputs)
    assert inputs == []
    torch.testing.assert_close(result[0], expected)
    assert seen == [[False, True, True], [False, False, True]]


def layers(x, *weights):
    for weight in weights:
        x = torch.tanh(x @ weight)
    return x.sum()


def test_a_graph_that_is_retained_runs_backward_twice() -> None:
    x, w = (torch.randn(8, 8, requires_grad=True) for _ in range(2))
    gradients = []
    for run in (dynascope.compile(layers), layers):
        x.grad = None
        loss = run(x, w)
        loss.backward(retain_graph=True)
        loss.backward()
        gradients.append(x.grad)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    torch.testing.assert_close(*gradients)
