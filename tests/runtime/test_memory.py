"""What is held while a graph runs: nothing longer than somebody reads it, in the forward pass and in the backward pass."""

from __future__ import annotations

import weakref
from dataclasses import replace

import dynascope
import pytest
import torch
from dynascope.codegen import wrapper
from dynascope.codegen.module import emit, runnable_of
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.runtime.machine import this_machine
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
    module = emit(fuse(lower(record(f, inputs))), this_machine(), empties_its_list=True)
    seen, references = [], [weakref.ref(value) for value in inputs]

    def looked(*operands):
        seen.append([reference() is not None for reference in references])
        return torch.mm(*operands)

    built = build(replace(runnable_of(module), values={**module.values, "call_mm": looked}))
    result = built.call.with_list(inputs)
    assert inputs == []
    torch.testing.assert_close(result[0], expected)
    assert seen == [[False, True, True], [False, False, True]]


def layers(x, *weights):
    for weight in weights:
        x = torch.tanh(x @ weight)
    return x.sum()


@pytest.mark.parametrize("tangent", ["dense", "expanded"])
def test_what_was_saved_is_free_while_the_backward_pass_runs(tangent, monkeypatch) -> None:
    alive, references = [], []

    def watched(operator, callable_of=wrapper.fastest):
        def call(*operands):
            alive.append(sum(reference() is not None for reference in references))
            return callable_of(operator)(*operands)

        return call

    monkeypatch.setattr(wrapper, "fastest", watched)
    weights = [torch.randn(16, 16, requires_grad=True) for _ in range(4)]
    outcome = dynascope.compile(layers_of)(*weights)
    node = outcome.grad_fn
    while not hasattr(node, "saved_tensors"):
        node = node.next_functions[0][0]
    references += [weakref.ref(value) for value in node.saved_tensors if not any(value is w for w in weights)]
    del node, alive[:]
    outcome.backward(torch.ones(16, 16) if tangent == "dense" else torch.ones(()).expand(16, 16))
    assert len(references) >= 3 and alive[-1] <= 1 and alive == sorted(alive, reverse=True)


def layers_of(first, *weights):
    x = first.tanh()
    for weight in weights:
        x = torch.tanh(x @ weight)
    return x


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


def test_the_report_says_where_the_most_is_held() -> None:
    def f(x):
        small = x.sum(0)
        big = x[:, None] * x[None]
        return big.sum((0, 1)) @ small, (big @ small).sum()

    x = torch.randn(40, 8)
    (graph,) = dynascope.explain(dynascope.compile(f), x).report.graphs
    (fact,) = graph.memory
    assert fact.phase == "forward" and fact.peak_bytes >= 40 * 40 * 8 * 4
    assert fact.span.line in (f.__code__.co_firstlineno + 2, f.__code__.co_firstlineno + 3)
    (groups,) = (text.text for text in graph.texts if text.stage == "groups-forward")
    assert groups.count("the most of all steps") == 1 and f"{fact.peak_bytes} bytes held, the most" in groups
