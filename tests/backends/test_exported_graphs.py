"""What exporters are given: parts of graphs that do not rely on how results lie in memory, and no random numbers."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.backends import GraphCompilers, register_backend
from dynascope.exported_graphs import Untranslated, compile_in_parts, first_cause, generators_kept, parts_of
from torch import fx

aten = torch.ops.aten


def test_a_view_may_be_a_copy_where_an_exporter_lays_results_out_in_its_own_way():
    graph = fx.Graph()
    x = graph.placeholder("x")
    view = graph.call_function(aten.view.default, (graph.call_function(aten.permute.default, (x, [1, 0])), [6]))
    graph.output((view, None))
    x_as_here, x_as_there = torch.arange(6.0).view(3, 2).t(), torch.arange(6.0).view(3, 2).t().contiguous()
    module = fx.GraphModule({}, graph)
    assert torch.equal(module(x_as_here)[0], torch.arange(6.0))
    (part,) = parts_of(module, [view, None], frozenset())
    assert torch.equal(part.module(x_as_there)[0], torch.arange(6.0))
    assert view.target is aten.view.default


def test_random_numbers_go_on_as_if_nothing_had_been_exported():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with generators_kept():
        torch.rand(5)
    assert torch.equal(torch.rand(3), expected)


class Exporter:
    """Knows no sine and no convolution's gradient, and draws random numbers where it is let."""

    unknown = frozenset({"aten.sin.default", "convolution_backward.default"})

    def __init__(self):
        self.refused, self.asked = set(), []

    def __call__(self, graph, examples):
        return compile_in_parts(graph, examples, self.translate, self.refused)

    def translate(self, module, examples):
        torch.rand(1)
        targets = {str(node.target) for node in module.graph.nodes if node.op == "call_function"}
        self.asked.append(targets)
        found = {name for name in targets if name in self.unknown or name.partition(".")[2] in self.unknown}
        if found:
            raise Untranslated(frozenset(name.removeprefix("aten.") for name in found))
        assert not any("bernoulli" in name or "dropout" in name for name in targets)
        return lambda *inputs: [value.contiguous() for value in module(*(each.contiguous() for each in inputs))]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.dropout = torch.nn.Conv2d(2, 4, 3), torch.nn.Dropout(0.5)

    def forward(self, x):
        first = self.dropout(torch.relu(self.convolution(x)))
        second = self.dropout(torch.sin(first * torch.tensor([2.0])).exp())
        return second.transpose(1, 2) + first.mean(), first


def test_a_graph_is_cut_at_what_an_exporter_does_not_know():
    exporter = Exporter()
    register_backend(GraphCompilers(exporter, exporter, "core"), name="exporter in parts")
    model, x = Model(), torch.randn(2, 2, 5, 5)
    compiled = dynascope.compile(model, backend="exporter in parts")

    def run(call):
        torch.manual_seed(3)
        results = call(x)
        gradients = torch.autograd.grad((results[0] * 2).sum() + results[1].sum(), list(model.parameters()))
        return [*results, *gradients, torch.rand(2)]

    found, expected = run(compiled), run(model)
    torch.testing.assert_close(found, expected)
    assert [value.stride() for value in found] == [value.stride() for value in expected]
    assert exporter.refused == {"aten.sin.default", "aten.convolution_backward.default"}
    asked = len(exporter.asked)
    dynascope.compile(model, backend="exporter in parts")(x)
    assert not any(targets & exporter.refused for targets in exporter.asked[asked:]) and len(exporter.asked) > asked
    notes = [note.message for graph in dynascope.explain(compiled, x).report.graphs for note in graph.notes]
    assert any("sin.default" in note and "bernoulli" in note for note in notes)


def test_what_nobody_knows_is_raised():
    def translate(module, examples):
        raise Untranslated(frozenset({"relu.default"}))

    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(aten.sin.default, (x,)),))
    with pytest.raises(Untranslated, match="relu"):
        compile_in_parts(fx.GraphModule({}, graph), [torch.ones(2)], translate, set())


def test_of_an_error_with_pages_around_it_the_first_words_are_told():
    try:
        try:
            raise ValueError("the reason\nand more")
        except ValueError as inner:
            raise RuntimeError("please send us a report") from inner
    except RuntimeError as error:
        assert first_cause(error) == "the reason"
