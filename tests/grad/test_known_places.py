"""Lists of a few numbers as subscripts are slices: no operator looks places up, and results lie in memory as eager's do."""

import dynascope
import pytest
import torch
from dynascope.grad import GradOptions, differentiate


def set_to(x):
    y = x * 1
    y[:, [2, 0]] = 5.0
    return y


def set_along(x):
    y = x * 1
    y[range(4), torch.tensor([5, 0, 2, 5])] = 0.5
    return y


def added_to(x):
    y = x * 1
    y.index_put_((torch.tensor([1, -1]),), torch.ones(2, *x.shape[1:]), accumulate=True)
    return y


PROGRAMS = {
    "one": lambda x: x[..., [-2], :],
    "reversed": lambda x: x[:, [2, 1, 0]] * 2,
    "one twice": lambda x: x[:, [2, 1, 2]] * 2,
    "of a permuted one": lambda x: x.transpose(0, 2)[:, [2, 1]],
    "the result itself": lambda x: x[[1]],
    "two of them": lambda x: x[[1]] + x[[-1]],
    "a tensor that is written out": lambda x: x[torch.tensor([1, 3])],
    "set": set_to,
    "added to": added_to,
    "many": lambda x: x[[0, 1, 2, 3, 0, 1]],
    "a range": lambda x: x[range(3, -1, -2)] * x[:, range(2), None].sum(),
    "one of each": lambda x: x[range(4), torch.tensor([5, 0, 2, 5])] * 2,
    "one of each by lists": lambda x: x[(0, 1), torch.tensor([5, 0]), [2, 2]],
    "rows of places": lambda x: x[:, [[0, 1], [2, 3]]] * 2,
    "ranges of places": lambda x: x[[range(2), range(2)], torch.tensor([[1, 2], [3, 0]])],
    "none": lambda x: x[range(0)].sum() + x[:, []].sum() + x,
    "set along": set_along,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_they_are_read_and_written_as_in_eager(program):
    torch.manual_seed(0)
    x = torch.randn(4, 6, 3)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = dynascope.compile(program)(ours), program(theirs)
    assert torch.equal(found, expected) and found.stride() == expected.stride()
    assert found.untyped_storage().data_ptr() != ours.untyped_storage().data_ptr()
    tangent = torch.randn_like(expected)
    (found,), (expected,) = torch.autograd.grad(found, ours, tangent), torch.autograd.grad(expected, theirs, tangent)
    assert torch.equal(found, expected) and found.stride() == expected.stride()


def test_a_place_that_is_not_there_raises():
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        dynascope.compile(lambda x: x[[7]])(torch.ones(4, 3))


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_a_list_of_lists_is_what_torch_takes_it_for():
    def program(x):
        return x[[[0, 1], [1, 2]]] * 2

    x = torch.randn(4, 6)
    assert torch.equal(dynascope.compile(program)(x), program(x))


def test_nothing_is_looked_up_in_either_pass():
    x = torch.randn(4, 6, requires_grad=True)
    graph = dynascope.explain(lambda x: x[:, [2, 1, 0]].sin())(x).graphs[0]
    pair = differentiate(graph, [x], GradOptions())
    called = {str(node.target) for each in (pair.forward, pair.backward) for node in each.graph.nodes}
    assert not any("aten.index" in each for each in called), called


@pytest.mark.parametrize("dimension", [-1, 0])
@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_rows_that_are_hidden_as_a_whole_are_zeros(dimension, dtype):
    """Attention by a mask, where torch writes it out."""

    def program(x):
        return torch.ops.aten._safe_softmax(x, dimension, dtype)

    torch.manual_seed(0)
    x = torch.randn(5, 6).masked_fill(torch.rand(5, 6) > 0.6, -torch.inf)
    x[2], x[:, 3] = -torch.inf, -torch.inf
    x[0, 0] = torch.nan
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = dynascope.compile(program)(ours), program(theirs)
    torch.testing.assert_close(found, expected, equal_nan=True)
    tangent = torch.randn_like(expected)
    (found,), (expected,) = torch.autograd.grad(found, ours, tangent), torch.autograd.grad(expected, theirs, tangent)
    torch.testing.assert_close(found, expected, equal_nan=True)
