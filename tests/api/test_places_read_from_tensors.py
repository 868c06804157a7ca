"""Places that a tensor says, as Python's numbers (`table[scores.argmax().item()]`): part of the graph, however small the table."""

import dynascope
import pytest
import torch

TABLE = torch.tensor([2, 0, 1])


def looked_up(scores):
    return TABLE[scores.argmax().item()] + 1


def looked_up_twice(scores):
    place = TABLE[scores.argmax().item()].item()
    return TABLE[place] * 2, TABLE[-1]


def in_several_dimensions(scores):
    place = scores.argmax().item()
    square = scores.expand(3, 3)
    return square[place, place], square[:, place], scores[None][0, place], square[..., place]


def written(scores):
    out = torch.zeros(2)
    place = (scores.argmax() % 2).item()
    out[place] = 5.0
    return out, out[place] * 2


def written_through_a_view(scores):
    out = torch.zeros(2, 2)
    row = out[(scores.argmax() % 2).item()]
    row.add_(1)
    return out


def way_back(scores):
    """Viterbi's: each place says the next."""
    pointers = [(TABLE + at) % 3 for at in range(3)]
    path = [scores.argmax().item()]
    for each in reversed(pointers):
        path.append(each[path[-1]].item())
    return path[::-1], scores + 1


WHOLE = [looked_up, looked_up_twice, in_several_dimensions, written_through_a_view, way_back]


@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_one_graph_for_all_places(function):
    dispatch = dynascope.compile(function, fullgraph=True)
    for place in (0, 1, 2, 1):
        scores = torch.zeros(3).index_fill(0, torch.tensor([place]), 1.0)
        found, expected = dispatch(scores), function(scores)
        torch.testing.assert_close(found, expected)


def test_a_part_is_written():
    dispatch = dynascope.compile(written, fullgraph=True)
    with dynascope.expected("varying-number"):
        torch.testing.assert_close(dispatch(torch.eye(3)[1]), written(torch.eye(3)[1]))
    torch.testing.assert_close(dispatch(torch.eye(3)[2]), written(torch.eye(3)[2]))


def test_the_tensor_is_written_between():
    def function(scores):
        place = scores.argmax()
        before = place.item()
        place.add_(1).remainder_(3)
        return TABLE[before], TABLE[place]

    with dynascope.expected("data-dependent-value"):
        dispatch = dynascope.compile(function)
        for place in (0, 2):
            scores = torch.zeros(3).index_fill(0, torch.tensor([place]), 1.0)
            assert dispatch(scores) == function(scores)


def test_a_place_that_is_not_there_is_the_programs_error():
    def function(scores):
        return TABLE[(scores.argmax() + 7).item()]

    dispatch = dynascope.compile(function)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        dispatch(torch.tensor([1.0, 0.0, 0.0]))


def test_sets_that_have_nothing_in_common():
    def function(x):
        names = {"a", "b"}
        return x + names.isdisjoint(["c"]) + 2 * names.isdisjoint({"b"})

    assert dynascope.compile(function, fullgraph=True)(torch.zeros(1)).item() == 1
