"""What a program does with one score, as steps: the same numbers, the same slope, and no more than steps."""

import pytest
import torch
from dynascope.tiled_attention.functions import (
    EVERYTHING,
    PLACES,
    SCORE,
    NotSteps,
    Scores,
    evaluated,
    recorded,
    scores_of,
)

take = torch.ops.aten.index.Tensor
SLOPES, TABLE = torch.rand(3), torch.randn(3, 16)
CHANGES = {
    "scaled": (lambda s, b, h, i, j: 2 * s - 1, ()),
    "capped": (lambda s, b, h, i, j: torch.tanh(s / 20) * 20, ()),
    "sloped": (lambda s, b, h, i, j, slopes: s + take(slopes, [h]) * (i - j), (SLOPES,)),
    "looked up": (lambda s, b, h, i, j, table: s + take(table, [h, i - j + 8]), (TABLE,)),
    "hidden": (lambda s, b, h, i, j: torch.where(i >= j, s * s, -float("inf")), ()),
    "in a range": (lambda s, b, h, i, j: s.clamp(-1, 1).relu() + torch.sigmoid(s), ()),
    "by rows that are even": (lambda s, b, h, i, j: torch.where(i % 2 == 0, s, s / (j + 1)), ()),
    "by squares": (lambda s, b, h, i, j: s - (i - j) ** 2 / 8, ()),
    "whatever it was": (lambda s, b, h, i, j: (i - j).abs().float().log1p(), ()),
    "of half": (lambda s, b, h, i, j, slopes: s + take(slopes, [h]), (SLOPES.half(),)),
}
MASKS = {
    "causal": (lambda b, h, i, j: i >= j, ()),
    "a window or the first": (lambda b, h, i, j: ((i - j).abs() < 3) | (j == 0), ()),
    "of a document": (lambda b, h, i, j, documents: take(documents, [i]) == take(documents, [j]), (torch.tensor([0, 0, 1, 1, 2, 2]),)),
    "not of a head": (lambda b, h, i, j: torch.logical_not(h == 1) & (i * 6 + j < 20), ()),
    "of a number": (lambda b, h, i, j, window: i - j < window, (torch.tensor(3),)),
    "of a float": (lambda b, h, i, j, slopes: take(slopes, [h]) * i > j / 2, (SLOPES,)),
}
SIZES = (2, 3, 6, 6)


def places():
    shapes = torch.eye(4, dtype=torch.int64).mul(torch.tensor(SIZES) - 1).add(1).tolist()
    return {name: torch.arange(size).view(shape) for name, size, shape in zip(PLACES, SIZES, shapes, strict=True)}


def steps(function, tables, changes):
    named = [*((SCORE,) if changes else ()), *PLACES, *[None] * len(tables)]
    return recorded(function, named, [table.to("meta") for table in tables], changes)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_score_and_its_slope(name):
    function, tables = CHANGES[name]
    scores, at = torch.randn(SIZES, generator=torch.Generator().manual_seed(0)).requires_grad_(), places()
    expected = function(scores, *torch.broadcast_tensors(*at.values()), *tables)
    found, slope = evaluated(steps(function, tables, True), {**at, SCORE: scores.detach()}, tables)
    torch.testing.assert_close(torch.as_tensor(found).expand(SIZES), expected.detach())
    if expected.requires_grad:
        (gradient,) = torch.autograd.grad(expected.sum(), scores)
        torch.testing.assert_close(torch.as_tensor(slope, dtype=torch.float32).expand(SIZES), gradient)
    else:
        assert slope == 0


@pytest.mark.parametrize("name", MASKS)
def test_a_mask(name):
    function, tables = MASKS[name]
    at = places()
    expected = function(*torch.broadcast_tensors(*at.values()), *tables)
    assert torch.equal(evaluated(steps(function, tables, False), at, tables)[0].expand(SIZES), expected)


def test_as_text():
    scores = Scores(steps(*MASKS["of a document"], False), steps(*CHANGES["sloped"], True).with_tables_from(1))
    assert scores_of(scores.text()) == scores
    assert [step.table for step in scores.change.steps if step.operation == "index"] == [1]
    assert scores_of(Scores(EVERYTHING, None).text()) == Scores(EVERYTHING, None)


REFUSED = {
    "a sum": (lambda s, b, h, i, j, table: s + table.sum(), (TABLE,)),
    "a row": (lambda s, b, h, i, j, table: s + take(table, [h]).sum(), (TABLE,)),
    "a place by the score": (lambda s, b, h, i, j, table: take(table, [h, s.long()]), (TABLE,)),
    "a cube of places": (lambda s, b, h, i, j: s - (i - j) ** 3, ()),
    "another type": (lambda s, b, h, i, j: s.double(), ()),
    "a program's operator": (lambda s, b, h, i, j: torch.special.gammaln(s), ()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_more_than_steps(name):
    with pytest.raises(NotSteps):
        steps(*REFUSED[name], True)
