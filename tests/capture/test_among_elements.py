"""`item in tensor`: a question that a tensor answers, and a branch on it like others."""

import dynascope
import pytest
import torch


def branched(item, tensor):
    if item in tensor:
        return tensor * 2
    return tensor - 1


def negated(item, tensor):
    if item not in tensor and tensor.sum() > -100:
        return tensor * 2
    return tensor - 1


def as_a_number(item, tensor):
    return tensor * (item in tensor)


def chained(item, tensor):
    return [tensor + 1 if item in tensor else tensor, item in [1, 2]]


ROWS = torch.tensor([1, 2, 4])
GIVEN = [(torch.tensor(2), ROWS), (torch.tensor(3), ROWS), (4, ROWS), (7, ROWS), (2.0, ROWS.double()), (True, ROWS)]
GIVEN += [(torch.tensor([1, 0, 0]), ROWS), (float("nan"), torch.tensor([float("nan")])), (1, torch.empty(0))]


@pytest.mark.parametrize("function", [branched, negated, as_a_number], ids=lambda function: function.__name__)
@pytest.mark.parametrize("number", range(len(GIVEN)))
def test_what_is_among_the_elements(function, number):
    item, tensor = GIVEN[number]
    compiled = dynascope.compile(function, backend="eager")
    with dynascope.expected("data-dependent-branch"):
        torch.testing.assert_close(compiled(item, tensor), function(item, tensor), equal_nan=True)


@pytest.mark.parametrize("item", ["a", None, torch.tensor([1, 2])], ids=["text", "none", "sizes"])
@pytest.mark.may_break
def test_what_cannot_be_compared_raises_as_in_eager(item):
    with pytest.raises(RuntimeError) as expected:
        branched(item, ROWS)
    with pytest.raises(RuntimeError) as found:
        dynascope.compile(branched, backend="eager")(item, ROWS)
    assert str(found.value) == str(expected.value)


@pytest.mark.may_break
def test_other_containers_are_asked_as_ever():
    found, expected = dynascope.compile(chained, backend="eager")(2, ROWS), chained(2, ROWS)
    assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]


@pytest.mark.parametrize("function", [branched, as_a_number])
def test_the_question_is_told_as_one_of_tensors(function):
    explained = str(dynascope.explain(function, torch.tensor(2), ROWS))
    assert "(tensor == item).any()" in explained and "foreign-value" not in explained
