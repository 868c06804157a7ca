"""NumPy's functions that have an equivalent in torch's words: one graph with NumPy's results, types, layouts and memory."""

import dynascope
import numpy as np
import pytest
import torch

NAN, INFINITY = float("nan"), float("inf")
FLOATS = np.array([[1.5, -2, NAN, 0.0], [INFINITY, 3, -0.0, -INFINITY], [2, 2, 5, -1]])
PLAIN = np.array([[0.5, -1.25, 2, 0.25], [3, 0.75, -2, 1], [1.5, -0.5, 0.125, 4]])
INTEGERS = np.array([[3, -1, 0, 2], [5, 5, -7, 1], [2, 0, 0, 9]])

OF_ALL = {
    "stacked": lambda a: (np.vstack([a, a * 2]), np.vstack((a[0],)), np.hstack([a, a[:, :1]]), np.hstack([a[0], a[1]]), np.dstack([a, a])),
    "columns": lambda a: (np.column_stack([a[0], a[1]]), np.column_stack([a[:, 1:], a[:, 0]]), np.append(a, 5), np.append(a, a, axis=1)),
    "tiled": lambda a: (np.tile(a, (2, 1)), np.tile(a, 2), np.tile(a[0], (2, 1, 2)), np.tile(a[0], 1)),
    "rolled": lambda a: (np.roll(a, 1), np.roll(a, -1, axis=1), np.roll(a, (1, 2), (0, 1))),
    "triangles": lambda a: (np.triu(a), np.tril(a, -1), np.diag(a[0]), np.diag(a[0], 1)),
    "padded": lambda a: (np.pad(a, 1), np.pad(a, ((0, 1), (2, 0)), constant_values=7), np.pad(a[0], (1, 2), mode="constant")),
    "in order": lambda a: (np.sort(a), np.sort(a, axis=0), np.argsort(a, kind="stable"), np.argsort(a, axis=0, kind="stable")),
    "differences": lambda a: (np.diff(a), np.diff(a, n=2), np.diff(a, axis=0), np.ptp(a[2]), np.ptp(a, axis=0)),
    "middles": lambda a: (np.median(a), np.median(a, axis=0), np.median(a, 1)),
    "hundredths": lambda a: (np.percentile(a, 30), np.percentile(a, [10, 50, 90], axis=1), np.quantile(a, 0.77, axis=0)),
    "means": lambda a: (np.average(a), np.average(a, axis=0), a.std(ddof=1), np.var(a, axis=0, ddof=1)),
    "close": lambda a: (np.isclose(a, 2), np.isclose(a, a + 1e-9, rtol=0), np.nan_to_num(a * 1.0), np.nan_to_num(a / 1, nan=1.0, posinf=9)),
    "grids": lambda a: (np.meshgrid(a[0], a[1]), np.meshgrid(a[0], a[1], a[:, 0], indexing="ij")),
    "parts": lambda a: (np.split(a, 2, axis=1), np.split(a, [1, 3], axis=1), np.array_split(a, 3, axis=1)),
    "moved": lambda a: (np.moveaxis(a, 0, 1), np.full_like(a, 2)),
    "signs": lambda a: (np.sign(a), a % 3, a % -2.5, a // 2, a // -1.5, 7 % (a * 1.0), np.fmod(a, -3), np.float_power(a, 2)),
}
OF_FINITE = {
    "products": lambda a: (np.outer(a, a[0]), np.kron(a, a), np.inner(a, a), np.tensordot(a, a.T, 1), np.tensordot(a, a, ([0, 1], [0, 1]))),
    "sums of Einstein": lambda a: (np.einsum("ij,kj->ik", a, a), np.einsum("ij->ji", a), np.einsum("ij,j->i", a, a[0])),
    "norms": lambda a: (np.linalg.norm(a), np.linalg.norm(a, axis=1), np.linalg.norm(a, axis=1, keepdims=True), np.linalg.norm(a, 2)),
    "matrices": lambda a: (np.linalg.inv(a[:, :3]), np.linalg.det(a[:, :3]), np.linalg.solve(a[:, :3], a)),
    "roots of matrices": lambda a: (np.linalg.cholesky(a @ a.T), np.trace(a), np.linalg.norm(a[0], 1), np.linalg.norm(a, "fro")),
}  # fmt: skip


def assert_alike(mine, theirs):
    assert type(mine) is type(theirs)
    if isinstance(theirs, (tuple, list)):
        for one, other in zip(mine, theirs, strict=True):
            assert_alike(one, other)
        return
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    assert [step for size, step in zip(mine.shape, mine.strides, strict=True) if size > 1] == [
        step for size, step in zip(theirs.shape, theirs.strides, strict=True) if size > 1
    ]
    np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", OF_ALL | OF_FINITE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_graph_with_numpys_results(name):
    program = (OF_ALL | OF_FINITE)[name]
    call = dynascope.compile(program, fullgraph=True)
    for given in (FLOATS, PLAIN, INTEGERS) if name in OF_ALL else (PLAIN, INTEGERS):
        assert_alike(call(given.copy()), program(given.copy()))


def test_a_remainder_of_zero_has_the_divisors_sign():
    found = dynascope.compile(lambda a: (a % -2, a % 2), fullgraph=True)(np.array([4.0, -4.0, 3.0]))
    assert [list(np.signbit(each)) for each in found] == [[True, True, True], [False, False, False]]


@pytest.mark.may_break
def test_of_sizes_that_vary():
    program = lambda a: (np.median(a), np.percentile(a, 30), np.roll(a, 1), np.vstack([a[1:], np.diff(a)]))  # noqa: E731
    call = dynascope.compile(program, dynamic=True)
    for size in (4, 5, 7, 8):
        given = np.linspace(-1, 2, size) ** 2
        assert_alike(call(given), program(given))


@pytest.mark.expects("foreign-call")
def test_parts_that_cannot_be_equal_are_numpys_error():
    call = dynascope.compile(lambda a: np.split(a, 2), dynamic=True)
    assert_alike(call(np.arange(6.0)), np.split(np.arange(6.0), 2))
    for size in (7, 9):
        with pytest.raises(ValueError, match="array split does not result in an equal division"):
            call(np.arange(float(size)))
    assert_alike(call(np.arange(8.0)), np.split(np.arange(8.0), 2))


def test_parts_lie_in_the_memory_of_the_whole():
    def program(a):
        first, second = np.split(a, 2)
        first += second
        return a.sum() + first.sum()

    given, twin = np.arange(6.0), np.arange(6.0)
    assert dynascope.compile(program, fullgraph=True)(given) == program(twin)
    np.testing.assert_array_equal(given, twin)


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize(
    "program",
    [
        lambda a: np.diag(a[:, :3]),  # no copy
        lambda a: np.argsort(a),  # which of two equal elements comes first is open
        lambda a: np.pad(a, 1, mode="edge"),
    ],
)
def test_what_numpy_does_otherwise_is_numpys(program):
    np.testing.assert_array_equal(dynascope.compile(program)(PLAIN.copy()), program(PLAIN.copy()))


def test_the_error_of_a_matrix_without_an_inverse_is_numpys():
    call = dynascope.compile(lambda a: np.linalg.inv(a), fullgraph=True)
    assert_alike(call(np.eye(3) * 2), np.linalg.inv(np.eye(3) * 2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        call(np.zeros((3, 3)))


def test_rows_of_tensors_are_rows_of_their_arrays():
    x = torch.linspace(-1, 1, 4)
    call = dynascope.compile(lambda x: np.vstack([x, np.ones(4)]), fullgraph=True)
    assert_alike(call(x), np.vstack([x, np.ones(4)]))


JOINED = {
    "stack": lambda x, y: (np.stack([x, y]), np.stack((x, y), axis=1)),
    "vstack": lambda x, y: (np.vstack([x, y]), np.hstack([x, y]), np.dstack([x, y]), np.column_stack([x, y])),
    "concatenate": lambda x, y: (np.concatenate([x, y * 2]), np.concatenate([x, y.double()])),
    "into torch": lambda x, y: ((torch.from_numpy(np.stack([x, y])) + x).numpy(),),
}


@pytest.mark.parametrize("name", JOINED)
def test_tensors_alone_are_joined_as_their_arrays(name):
    x, y = torch.linspace(-1, 1, 4), torch.arange(4.0)
    found, expected = dynascope.compile(JOINED[name], fullgraph=True)(x, y), JOINED[name](x, y)
    for mine, theirs in zip(found, expected, strict=True):
        assert_alike(mine, theirs)


def test_tensors_with_gradients_are_refused_where_arrays_of_them_are_joined():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        dynascope.compile(lambda x: np.stack([x, x]))(x)
