"""Backends that keep a size of their example inputs for the run of what they made: never silently the size at hand."""

from __future__ import annotations

import dynascope
import pytest
import torch
from torch.nn import functional as F

SIZES = (3, 4, 5, 4, 7)


def mean_of(result, count):
    return lambda *inputs: tuple(each if each is None else each / count() for each in result(*inputs))


def examples_size(example_inputs):
    return next(each for each in example_inputs if isinstance(each, torch.Tensor) and each.dim()).shape[0]


def kept_whole(graph, example_inputs):
    """The symbol itself, which becomes a number when the code runs."""
    count = examples_size(example_inputs)
    return mean_of(graph.forward, lambda: int(count))


def kept_for_torch(graph, example_inputs):
    """Torch's operators on tensors with memory refuse a symbol."""
    count = examples_size(example_inputs)
    return mean_of(graph.forward, lambda: torch.ones(count).sum())


def kept_of_a_node(graph, example_inputs):
    """What lies inside of the graph, as it is described there."""
    described = [
        node.meta.get("example_value", node.meta.get("val")) for node in graph.graph.nodes if node.name == "relu"
    ]
    count = described[0].shape[0]
    return mean_of(graph.forward, lambda: float(count))


def kept_behind_a_try(graph, example_inputs):
    count = examples_size(example_inputs)

    def number():
        try:
            return int(count)
        except RuntimeError:
            return -1

    return mean_of(graph.forward, number)


def kept_from_the_second_call_on(graph, example_inputs):
    count, calls = examples_size(example_inputs), []

    def call(*inputs):
        calls.append(1)
        rows = next(each for each in inputs if isinstance(each, torch.Tensor)).shape[0]
        divisor = rows if len(calls) == 1 else int(count)
        return tuple(each if each is None else each / divisor for each in graph.forward(*inputs))

    return call


KEEPING = [kept_whole, kept_for_torch, kept_of_a_node, kept_behind_a_try, kept_from_the_second_call_on]


def total(x):
    return x.relu().sum()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", KEEPING)
def test_a_kept_size_is_that_of_the_call(backend, dynamic):
    """Where the code cannot serve a call the graph itself does: these backends do more than that."""
    made = []

    def counted(graph, example_inputs):
        made.append(graph)
        return backend(graph, example_inputs)

    compiled = dynascope.compile(total, backend=counted, dynamic=dynamic)
    for size in SIZES * 2:
        x = torch.rand(size, 2)
        result, expected = compiled(x), total(x)
        assert torch.allclose(result, expected / size) or torch.allclose(result, expected), size
    for size in SIZES:  # known to be kept by now: one for each size
        torch.testing.assert_close(compiled(torch.ones(size, 2)), torch.tensor(2.0))
    assert len(made) <= len(set(SIZES)) + 3, "one for each size, and the attempts at all of them"


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", KEEPING)
def test_of_functional_graphs_too(backend, dynamic):
    def runs(graph, example_inputs):
        return graph.forward

    forward = dynascope.aot(total, forward_compiler=backend, backward_compiler=runs, dynamic=dynamic)
    for size in SIZES * 2:
        x = torch.rand(size, 2)
        result, expected = forward(x), total(x)
        assert torch.allclose(result, expected / size) or torch.allclose(result, expected), size
    torch.testing.assert_close(forward(torch.ones(5, 2)), torch.tensor(2.0))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", [kept_whole, kept_for_torch, kept_behind_a_try, kept_from_the_second_call_on])
def test_backward_graphs_that_are_given_no_number(backend, dynamic):
    """A product's backward graph takes tensors alone: their sizes vary nevertheless."""

    def runs(graph, example_inputs):
        return graph.forward

    compiled = dynascope.aot(lambda x, w: x * w, forward_compiler=runs, backward_compiler=backend, dynamic=dynamic)
    for size in SIZES * 2:
        x, w = torch.rand(size, 2, requires_grad=True), torch.rand(size, 2)
        compiled(x, w).sum().backward()
        assert torch.allclose(x.grad, w / size) or torch.allclose(x.grad, w), size
    x = torch.rand(5, 2, requires_grad=True)
    compiled(x, torch.ones(5, 2)).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((5, 2), 0.2))


def test_what_the_graph_writes_is_written_once():
    def step(x, seen):
        seen.add_(1)
        return x.relu().sum()

    compiled = dynascope.compile(step, backend=kept_whole, dynamic=True)
    seen = torch.zeros(())
    for count, size in enumerate(SIZES, 1):
        compiled(torch.ones(size, 2), seen)
        assert seen.item() == count


def test_what_the_program_does_wrong_is_its_own_error():
    table = torch.arange(4.0)[:, None]
    compiled = dynascope.compile(lambda x: F.embedding(x.sum(), table) * x.shape[0], backend=kept_whole, dynamic=True)
    for size in (2, 3):
        torch.testing.assert_close(compiled(torch.ones(size, 1, dtype=torch.long)) * size, table[size] * size)
        with pytest.raises(IndexError):
            compiled(torch.full((size, 1), 4))


def test_only_the_size_that_is_kept_is_a_constant():
    made = []

    def keeps_the_columns(graph, example_inputs):
        made.append(graph)
        columns = example_inputs[-1].shape[1]
        return mean_of(graph.forward, lambda: int(columns))

    for compile_with in (
        lambda backend: dynascope.compile(lambda x: x.sum(), backend=backend, dynamic=True),
        lambda backend: dynascope.aot(lambda x: x.sum(), forward_compiler=backend, dynamic=True),
    ):
        made.clear()
        compiled = compile_with(keeps_the_columns)
        for rows in range(2, 7):
            torch.testing.assert_close(compiled(torch.ones(rows, 3)), torch.tensor(float(rows)))
        assert len(made) == 2
        torch.testing.assert_close(compiled(torch.ones(2, 5)), torch.tensor(2.0))
        assert len(made) == 3
