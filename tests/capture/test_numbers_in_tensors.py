"""Sizes that went through a tensor (`torch.div(n, 2, rounding_mode="trunc")`) are sizes still, in one graph for all of them."""

import dynascope
import pytest
import torch
from dynascope import recording


def quotient(x):
    return torch.div(x.size(0), 2, rounding_mode="trunc")


def sizes(x):
    n = quotient(x) - 1
    return x.new_zeros((2, n + 1, 3)), torch.zeros(n), x.repeat(int(n), 1)


def views(x):
    n = quotient(x)
    return x.view(n, 2, -1), x.reshape(n, -1), x[:n], x[n], x.narrow(0, 0, n), torch.arange(n)


def of_a_tensor(x):
    n = torch.tensor(x.shape[0])
    return x.new_zeros(n, 3), x[:1].expand(n, -1), n.item() + 1, float(n)


def loops(x):
    n = quotient(x)
    return sum(x[at] for at in range(n)), len(range(n)), [at * 2 for at in range(int(n))]


def floors(x):
    n, m = x.shape
    down = torch.div(m - n, 3, rounding_mode="floor").item(), torch.div(m - n, 3, rounding_mode="trunc").item()
    return x * 2, *down, torch.floor_divide(n, 3).item(), torch.div(n, 4).item(), torch.div(n, 4)


def written(x):
    n = torch.tensor(x.shape[0])
    m = n.clone()
    n += 1
    n[()] = n + 1
    return x.new_zeros(n), x.new_zeros(m)


def computed(x):
    n = torch.add(x.size(0), 1)
    m = torch.mul(n, 2) - x.size(1)
    return x.new_zeros(m.clone().detach().long()), m.item(), n.dtype, (n * 1.5), n == 5


def with_gradients(x):
    n = quotient(x)
    return x.view(n, 2, -1).sum(1) * n


PROGRAMS = [sizes, views, of_a_tensor, loops, floors, written, computed, with_gradients]


def same(mine, theirs):
    if isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()
    elif isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            same(one, other)
    else:
        assert type(mine) is type(theirs) and mine == theirs


@pytest.mark.turns(6)
@pytest.mark.may_break
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program, backend, dynamic):
    call = dynascope.compile(program, backend=backend, dynamic=dynamic)
    for shape in ((8, 4), (4, 8), (6, 10), (12, 4), (14, 6)):
        x = torch.randn(shape)
        same(call(x), program(x))
        tracked = x.clone().requires_grad_()
        same(call(tracked), program(tracked))


@pytest.mark.parametrize("program", [sizes, views, of_a_tensor, with_gradients], ids=lambda program: program.__name__)
def test_one_graph_for_all_sizes(program):
    call = dynascope.compile(program, backend="eager", dynamic=True, fullgraph=True)
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        for rows in (8, 4, 12, 14, 6):
            x = torch.randn(rows, 4)
            same(call(x), program(x))
    finally:
        recording.use(before)
    assert len(recorder.report().graphs) == 1


class Place:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


def test_what_a_slice_of_a_list_is_bound_by():
    def program(x):
        items, last = [x, x + 1, x + 2, x + 3], torch.tensor(3)
        items[: Place(1)] = [x * 2]
        return items[torch.tensor(1) : last], (1, 2, 3, 4)[:: Place(2)]

    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(2)), program(torch.ones(2)))


def test_a_number_of_a_run_that_would_be_complex_elsewhere():
    """As optimizers that count their steps in tensors compute a rate: other numbers are tried, to tell sizes from it."""

    def program(x, count):
        count += 1
        rate = min(0.01, 1 / count.item() ** 0.5)
        return x * rate / (x @ x.T).numel()

    compiled, counts = dynascope.compile(program, backend="eager"), [torch.tensor(0.0), torch.tensor(0.0)]
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        for rows in (3, 4, 5):
            x = torch.randn(rows, 2)
            torch.testing.assert_close(compiled(x, counts[0]), program(x, counts[1]))
    finally:
        recording.use(before)
    assert len(recorder.report().graphs) == 2
