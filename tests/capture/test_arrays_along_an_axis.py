"""NumPy's `broadcast_to`, `take_along_axis`, `put_along_axis`, and draws of arrays (`numpy.random.choice`)."""

import dynascope
import numpy as np
import pytest
import torch
from dynascope import compile

A = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
PLACES = np.array([[0, 1], [2, 2], [3, 1]])


def masked(a, value):
    mask = np.zeros(a.shape, dtype=bool)
    np.put_along_axis(mask, PLACES, value, -1)
    return mask, a * mask


PROGRAMS = {
    "spread": lambda a: np.broadcast_to(a[:, None], (3, 2, 4)),
    "spread rows": lambda a: np.broadcast_to(a[0], (2, 4)) + 1,
    "spread, then reshaped": lambda a: np.broadcast_to(a[:, None], (3, 2, 4)).reshape(3, 8),
    "taken": lambda a: np.take_along_axis(a, PLACES, 1),
    "taken by rows": lambda a: np.take_along_axis(a, np.array([[0, 2, 1, 0]]), axis=0),
    "taken from the end": lambda a: np.take_along_axis(a, np.array([[0, -1, 0, 2]]), 0),
    "put": lambda a: masked(a, 1),
    "put, converted": lambda a: masked(a, 2.5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_with_numpys_results(name):
    program = PROGRAMS[name]
    call = compile(program, backend="eager", fullgraph=True)
    for scale in (1, 2):
        ours, theirs = call(A * scale), program(A * scale)
        for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (ours, theirs)), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype and one.strides == other.strides and one.flags.writeable == other.flags.writeable


@pytest.mark.may_break
def test_what_is_spread_is_not_written():
    def f(a):
        spread = np.broadcast_to(a[0], (3, 4))
        try:
            spread[0, 0] = 5
        except ValueError:
            return spread + 1
        return spread

    np.testing.assert_array_equal(compile(f)(A.copy()), f(A.copy()))


def spans(a, k):
    starts = np.random.choice(np.arange(a.shape[1]), k, replace=False)
    return a * starts.sum(), starts


def weighted(a, k):
    weights = np.abs(a[0].astype(np.float64))
    return np.random.choice(4, k, p=weights / weights.sum()), a


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", [spans, weighted])
def test_draws_of_arrays(function, backend):
    """How many are drawn is a size."""
    compiled = compile(function, backend=backend, fullgraph=True)
    for k in (1, 2, 3):
        found = []
        for each in (function, compiled):
            np.random.seed(k)
            found.append((*each(A, k), np.random.rand()))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_draw_that_raises_draws_nothing():
    def f(a, p):
        return a + np.random.choice(4, 2, p=p * 1.0).sum()

    compiled = dynascope.compile(f, fullgraph=True)
    np.random.seed(0)
    compiled(A, np.full(4, 0.25))
    np.random.seed(0)
    with pytest.raises(ValueError, match="sum to 1"):
        compiled(A, np.full(4, 0.5))
    first = np.random.rand()
    np.random.seed(0)
    assert first == np.random.rand()


def test_tensors_of_what_is_drawn():
    def f(x):
        order = np.random.permutation(x.numpy())
        return torch.from_numpy(order) * 2

    compiled = compile(f, fullgraph=True)
    found = []
    for each in (f, compiled):
        np.random.seed(0)
        found.append(each(torch.arange(5.0)))
    assert torch.equal(*found)
