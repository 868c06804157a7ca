"""`out[mask] = row` with a row that learns: one graph with kernels, whose gradients are eager's."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.strictness import expected
from torch import nn


class Ended(nn.Module):
    """An embedding of its own for what ends a text, as T5Gemma 2 has."""

    def __init__(self):
        super().__init__()
        self.table, self.end = nn.Embedding(9, 4), nn.Parameter(torch.randn(4))

    def forward(self, ids):
        rows = self.table(ids) * 2
        rows[ids == 3] = self.end.to(rows.dtype)
        return rows.sin()


def gradients(call, model, ids):
    model.zero_grad()
    result = call(ids)
    (result * torch.arange(4)).sum().backward()
    return result, [each.grad.clone() for each in model.parameters()]


@pytest.mark.compiler
def test_an_embedding_of_its_own():
    torch.manual_seed(0)
    model = Ended()
    compiled = dynascope.compile(model, fullgraph=True)
    for ids in (torch.tensor([[1, 3, 2], [3, 3, 8]]), torch.tensor([[1, 2, 4, 5]]), torch.full((3, 2), 3)):
        torch.testing.assert_close(gradients(compiled, model, ids), gradients(model, model, ids))


def one_number(y, row):
    y[y > 0] = row[0]


def a_row(y, row):
    y[y[:, 0] > 0] = row


def none_of_them(y, row):
    y[y[:, 0] > 90] = row


def one_row_of_one(y, row):
    y[y[:, 0] > 0] = row[None]


def one_number_for_each_row(y, row):
    y[y[:, 0] > 0] = row[:1]


def of_the_tensor_itself(y, row):
    y[y[:, 0] > 0] = y[0].clone()


def of_a_part(y, row):
    y[1:][y[1:, 0] > 0] = row


def what_is_no_number(y, row):
    y[y[:, 0] > 0] = row / 0


WRITES = (
    one_number,
    a_row,
    none_of_them,
    one_row_of_one,
    one_number_for_each_row,
    of_the_tensor_itself,
    of_a_part,
    what_is_no_number,
)


@pytest.mark.compiler
@pytest.mark.parametrize("write", WRITES)
def test_results_gradients_and_versions(write):
    def function(x, row):
        y = x * 1
        write(y, row)
        return y.exp(), y._version

    outcomes = []
    for call in (function, dynascope.compile(function)):
        torch.manual_seed(1)
        x, row = torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True)
        result, version = call(x, row)
        grads = torch.autograd.grad(result.nan_to_num(posinf=2.0).sum(), (x, row), allow_unused=True)
        outcomes.append((result.detach(), version, grads))
    assert outcomes[0][1] == outcomes[1][1]
    torch.testing.assert_close(outcomes[1][0], outcomes[0][0], equal_nan=True)
    for mine, theirs in zip(outcomes[1][2], outcomes[0][2], strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, equal_nan=True)


@pytest.mark.compiler
def test_rows_that_lie_on_one_another_and_rows_of_the_tensor_itself():
    """What eager says of them is said."""

    def expanded(x, row):
        y = (x * 1).expand(4, 3)
        y[torch.tensor([True, False, True, True])] = row
        return y

    def own(x, row):
        y = x * row
        y[y[:, 0] > -9] = y[0]
        return y

    for function in (expanded, own):
        outcomes = []
        for call in (function, dynascope.compile(function)):
            x, row = torch.ones(1, 3), torch.ones(3, requires_grad=True)
            try:
                with expected("overlapping-write", required=False):
                    outcomes.append(call(x, row).tolist())
            except RuntimeError as error:
                outcomes.append(str(error).partition("\n")[0])
        assert outcomes[0] == outcomes[1]
