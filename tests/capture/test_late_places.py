"""Sizes that the program reads of what is cut at places that only the run knows."""

import dynascope
import pytest
import torch

X = torch.arange(24.0).view(6, 4)


def cut(x, at):
    y = x[: int(at.max())] * 2
    return y, y.dim(), y.size(1), y.shape[0]


def length(x, at):
    y = x[: int(at.max())]
    return len(y) + y.sum()


def cut_twice(x, at):
    y = x[int(at.min()) :]
    z = y[: int(at.max())]
    return z + 1, x.new_zeros(z.shape[0])


def made(x, at):
    y = x.new_zeros(int(at.max()) + 1, 4)
    return y + y.dim(), y.size()[1], y.new_ones(y.shape)


def decided(x, at):
    n = int(at.max())
    y = x[:n]
    return y.sum() if n >= 0 else y.sum() * 100


def decided_above(x, at):
    n = int(at.max())
    y = x[n : n + 2]
    return y.sum() * (2 if n + 2 <= 6 else 7)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", [cut, length, cut_twice, made, decided, decided_above])
def test_they_are_eager_s(program, backend):
    """Where the place lies outside too, and where the program raises."""

    def answer(function, at):
        try:
            return function(X, torch.tensor(at))
        except RuntimeError as error:
            return str(error)

    compiled = dynascope.compile(program, backend=backend)
    for at in ([1, 3], [0, 6], [0, 9], [-2, -1], [2, 2], [-9, -8], [0, 4]):
        with dynascope.expected("data-dependent-value", "data-dependent-branch", required=False):
            found, expected = answer(compiled, at), answer(program, at)
        assert repr(found) == repr(expected)


@pytest.mark.parametrize("program", [cut, length, made])
def test_they_break_nothing(program):
    dynascope.compile(program, backend="eager", fullgraph=True)(X, torch.tensor([1, 3]))


def windows(x, at):
    return torch.stack([x[i : i + 2] for i in at]), torch.stack([x[1 + i - 1 : i + 3] for i in at]).sum()


def bound_moved(x, at):
    end = at[0] + 2
    at[0].add_(1)
    y = x.clone()
    y[at[0] : end] = 7
    return y[:end], y[at[1] :].sum()


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", [windows, bound_moved])
def test_tensors_are_bounds(program, backend):
    """As batches of text are taken: `torch.stack([data[i : i + length] for i in starts])`."""
    data = torch.arange(99.0)
    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for at in ([1, 3], [0, 2], [90, 0]):
        assert repr(compiled(data, torch.tensor(at))) == repr(program(data, torch.tensor(at)))
    with pytest.raises(RuntimeError, match="stack expects"):
        dynascope.compile(windows, backend=backend)(data, torch.tensor([1, 98]))


ROWS_CUT = {
    "a row": lambda x, i, n: x[i, :n],
    "the last dimension": lambda x, i, n: x[..., :n][i],
    "a new dimension": lambda x, i, n: x[None, i, :n],
    "rows by a list": lambda x, i, n: x[[0, 1], :n][i],
    "the end": lambda x, i, n: x[i, -n:],
    "by torch's operator": lambda x, i, n: torch.ops.aten.slice(x, 1, 0, n)[i],
    "a window": lambda x, i, n: x[i, n : n + 2],
    "a step": lambda x, i, n: x[i, :n:2],
}


@pytest.mark.parametrize("name", ROWS_CUT)
def test_parts_by_different_numbers_are_different(name):
    """All sizes that are asked lie beyond the end of a short row, where both parts are the same."""
    cut = ROWS_CUT[name]

    def program(x, at):
        first, second = int(at[0]), int(at[1])
        return torch.stack([cut(x, 0, first).sum(), cut(x, 1, second).sum(), cut(x, 0, second).exp().sum()])

    compiled = dynascope.compile(program, fullgraph=True)
    for at in ([1, 2], [3, 4], [5, 2], [6, 6], [9, 1], [0, 3]):
        x, at = torch.linspace(-1, 1, 18).view(3, 6), torch.tensor(at)
        torch.testing.assert_close(compiled(x, at), program(x, at))


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_parts_of_short_rows_have_kernels(columns):
    """Strict mode: that they ran operator by operator is an error. The number that sizes are asked with may be all of the row."""

    def program(x, at):
        first, second = int(at[0]), int(at[1])
        return x[0, :first].sum() * 2 + 1, x[1, :second].exp().sum(), x[:, :first].exp() + 1, x[1, second : second + 2] * 3

    compiled = dynascope.compile(program, fullgraph=True)
    for at in ([1, 2], [3, 1], [2, 2], [0, 3], [9, 1]):
        x, at = torch.linspace(-1, 1, 2 * columns).view(2, columns), torch.tensor(at)
        torch.testing.assert_close(compiled(x, at), program(x, at))


def rows_of_a_list(x, places):
    first, second = places.tolist()
    copy = x.clone()
    copy[[second, first]] = 5.0
    return x[places.tolist()] * 2, x[:, [first, -1]], x[[second]], copy


def test_a_list_of_late_places_is_read_by_kernels():
    compiled, x = dynascope.compile(rows_of_a_list, fullgraph=True), torch.arange(20.0).view(5, 4)
    for places in ([1, -2], [0, 3], [3, 3]):
        for one, other in zip(compiled(x, torch.tensor(places)), rows_of_a_list(x, torch.tensor(places)), strict=True):
            assert torch.equal(one, other) and one.stride() == other.stride()


def test_a_list_with_a_late_place_outside_raises():
    compiled = dynascope.compile(lambda x, places: x[places.tolist()] * 2, fullgraph=True)
    assert torch.equal(compiled(torch.arange(3.0), torch.tensor([2, 1])), torch.tensor([4.0, 2.0]))
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 3"):
        compiled(torch.arange(3.0), torch.tensor([2, 7]))
