"""What exporters are given: graphs that do not rely on how results lie in memory, and leave the program's random numbers alone."""

from __future__ import annotations

import torch
from dynascope.exported_graphs import exportable, generators_kept
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
    (found,) = exportable(module, [view, None])(x_as_there)
    assert torch.equal(found, torch.arange(6.0))
    assert view.target is aten.view.default


def test_random_numbers_go_on_as_if_nothing_had_been_exported():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with generators_kept():
        torch.rand(5)
    assert torch.equal(torch.rand(3), expected)
