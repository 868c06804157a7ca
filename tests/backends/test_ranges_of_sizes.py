"""Backends that ask something of a size of their example inputs while they compile: one compilation for all sizes of that answer."""

from __future__ import annotations

import dynascope
import pytest
import torch

QUESTIONS = {
    "a bound": (lambda size: bool(size <= 8), (3, 4, 5, 9, 12, 7), 2),
    "a multiple": (lambda size: bool(size % 4 == 0), (4, 8, 12, 5, 6, 16), 2),
    "two questions": (lambda size: bool(size * 2 > 7 and size != 6), (4, 5, 9, 6, 3), 4),
}
"""With sizes, and how many compilations these take: one for each answer, and of a number that is asked for one more attempt."""


def asking(question, made, of=-1):
    """A backend whose code is right for one answer alone. With `of` the tensor of that place is asked about."""

    def backend(graph, example_inputs):
        answer = question([each for each in example_inputs if isinstance(each, torch.Tensor)][of].shape[0])
        made.append(answer)

        def run(*inputs):
            rows = [each for each in inputs if isinstance(each, torch.Tensor)][of].shape[0]
            assert question(rows) == answer
            return graph.forward(*inputs)

        return run

    return backend


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_guarded(name):
    question, sizes, count = QUESTIONS[name]
    made = []
    compiled = dynascope.compile(lambda x: x.relu().sum(0), backend=asking(question, made), dynamic=True)
    for size in sizes * 2:
        x = torch.randn(size, 2)
        torch.testing.assert_close(compiled(x), x.relu().sum(0))
    assert len(made) == count


def test_of_functional_graphs_in_both_passes():
    forward, backward = [], []
    question = QUESTIONS["a bound"][0]
    compiled = dynascope.aot(
        lambda x, w: (x * w).sum(1),
        forward_compiler=asking(question, forward),
        backward_compiler=asking(question, backward, of=0),
        dynamic=True,
    )
    for size in QUESTIONS["a bound"][1] * 2:
        x, w = torch.randn(size, 2, requires_grad=True), torch.randn(size, 2)
        compiled(x, w).sum().backward()
        torch.testing.assert_close(x.grad, w)
    assert len(forward) == len(backward) == 2


def test_a_number_itself_is_a_constant_still():
    made = []
    compiled = dynascope.compile(lambda x: x.relu().sum(0), backend=asking(int, made), dynamic=True)
    for size in (3, 4, 3, 5):
        x = torch.randn(size, 2)
        torch.testing.assert_close(compiled(x), x.relu().sum(0))
    assert {*made} >= {3, 4, 5}
