"""Gradients of tables with `sparse=True`: they leave a graph as they are, and what adds them up is torch's."""

import dynascope
import pytest
import torch
from torch import nn
from torch.nn import functional as F


def once(table, a, b):
    return (table(a) * 2).sum() + b.sum()


def twice(table, a, b):
    """As in matrix factorization: items that a user liked, and others."""
    return -F.logsigmoid(table(a).sum(-1).mean() - table(b).pow(2).sum(-1).mean())


def three_times(table, a, b):
    return (table(a) * 2).sum() + table(b).pow(2).sum() + table(a).sin().sum()


def bags(table, a, b):
    one = F.embedding_bag(a[None], table.weight, sparse=True, mode="sum")
    return one.sum() + F.embedding_bag(b[None], table.weight, sparse=True, mode="mean").sum()


def of_a_computed_table(table, a, b):
    return F.embedding(a, table.weight * 1.5, sparse=True).sum() + b.sum()


@pytest.mark.parametrize("program", [once, twice, three_times, bags, of_a_computed_table])
def test_they_are_eager_s(program):
    def play(function):
        torch.manual_seed(0)
        table, found = nn.Embedding(8, 4, sparse=True), []
        for count in (4, 4, 6, 7):
            table.zero_grad()
            loss = function(table, torch.randint(0, 8, (count,)), torch.randint(0, 8, (3,)))
            loss.backward()
            gradient = table.weight.grad
            found += [loss.detach(), gradient.to_dense(), gradient.layout == torch.sparse_coo]
        return found

    expected = play(program)
    codes = ["unsupported-tensor"] if program is not once else []
    with dynascope.expected(*codes):
        found = play(dynascope.compile(program))
    torch.testing.assert_close(found, expected)
