"""Counts in as many bins as a size that varies: one graph for all sizes, and torch's answer where there are more bins or none."""

import dynascope
import torch


def shares(x, nodes):
    return x / torch.bincount(nodes, minlength=x.size(0)).clamp(min=1).unsqueeze(1)


def by_graph(x, graphs):
    count = int(graphs.max()) + 1
    return torch.zeros(count, 3).index_add_(0, graphs, x) / graphs.bincount(minlength=count).unsqueeze(1)


def test_one_graph_for_all_sizes():
    for function in (shares, by_graph):
        compiled = dynascope.compile(function, backend="eager", dynamic=True, fullgraph=True)
        for size in (4, 5, 7):
            given = torch.arange(3.0 * size).view(size, 3), torch.arange(size) // 2
            torch.testing.assert_close(compiled(*given), function(*given))


def test_more_bins_than_that():
    def counts(x, nodes):
        x.add_(1)
        return torch.bincount(nodes, minlength=x.size(0)), x * 2

    compiled = dynascope.compile(counts, backend=lambda graph, examples: graph, dynamic=True)
    for nodes in ([0, 2, 2], [1, 6], [3, 0]):
        ours, theirs = (function(torch.arange(4.0), torch.tensor(nodes)) for function in (compiled, counts))
        torch.testing.assert_close(ours, theirs)
