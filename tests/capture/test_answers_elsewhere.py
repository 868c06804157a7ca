"""Programs with many numbers that vary: each node is asked once for the numbers that lead to it, and captures start again once."""

import dynascope
import pytest
import torch
from dynascope import pipeline
from dynascope.capture.answers_elsewhere import AnswersElsewhere, ChangesOperand
from torch import fx


@pytest.fixture
def graph():
    graph = fx.Graph()
    nodes = [graph.placeholder(name) for name in ("x", "y")]
    nodes.append(graph.call_method("mul", (nodes[0], 2)))
    nodes.append(graph.call_method("add", (nodes[2], nodes[1])))
    return nodes


def test_a_node_is_asked_once_for_the_numbers_that_lead_to_it(graph, monkeypatch):
    x, y, double, total = graph
    own = {x: frozenset("n"), y: frozenset("m")}
    monkeypatch.setattr("dynascope.capture.answers_elsewhere._own_names", lambda node: own.get(node, frozenset()))
    answers, asked = AnswersElsewhere(), []

    def ask(node, **values):
        return answers.of(node, values, (), lambda: asked.append((node, *values.values())))

    for n, m in ((5, 2), (5, 3), (7, 3), (5, 2)):
        ask(double, n=n, m=m)
        ask(total, n=n, m=m)
    assert asked == [(double, 5, 2), (total, 5, 2), (total, 5, 3), (double, 7, 3), (total, 7, 3)]


def test_what_is_changed_in_place_is_not_shared(graph):
    answers, tensor = AnswersElsewhere(), torch.ones(2, 3)
    with pytest.raises(ChangesOperand):
        answers.of(graph[2], {}, [tensor], tensor.t_)
    assert not answers.are_shared


def turned(x, n, m):
    y = (x[: n + 1] * m).clone()
    y.t_()
    z = y.sum(1) + n
    return z, y.shape[0] * m, y.shape[1] + n


def resized(x, n, m):
    y = torch.empty(0)
    torch.mul(x[: n + 1], m, out=y)
    return y[: m + 1].sum(), y.shape[0] + m


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("function", [turned, resized])
@pytest.mark.may_break
def test_shapes_that_change_in_place_are_of_their_own_numbers(function):
    compiled = dynascope.compile(function, backend="eager")
    for n, m in ((3, 2), (4, 5), (7, 3), (9, 8), (5, 2)):
        x = torch.randn(12, 4)
        for found, wanted in zip(compiled(x, n, m), function(x, n, m), strict=True):
            torch.testing.assert_close(found, wanted)


def test_places_of_many_numbers_are_constants_at_once(monkeypatch):
    captures = []
    capture = pipeline.capture
    monkeypatch.setattr(pipeline, "capture", lambda *given: captures.append(1) or capture(*given))

    def chosen(rows, places):
        return torch.stack([row.exp()[place] for row, place in zip(rows, places, strict=True)]).sum()

    compiled = dynascope.compile(chosen)
    for places in ([0, 1, 0, 1, 1, 0], [1, 0, 1, 0, 0, 1], [0, 0, 1, 1, 0, 0]):
        rows = [torch.randn(4, requires_grad=True) for _ in places]
        torch.testing.assert_close(compiled(rows, places), chosen(rows, places))
    assert len(captures) <= 6, "one more of each call at the most, and not one for each place"
