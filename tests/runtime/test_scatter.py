"""Writes to computed places: equal places, negative ones, wrong ones, broadcast values, every dtype."""

from __future__ import annotations

import dynascope
import pytest
import torch
from compiled import check, compiled, kernels

pytestmark = pytest.mark.compiler

ADDED = (torch.float32, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8)


def numbers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))) * 5).to(dtype)


def places(*sizes: int, below: int) -> torch.Tensor:
    return torch.randint(-below, below, sizes, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", ADDED, ids=str)
def test_equal_places_add_up(dtype: torch.dtype) -> None:
    def rows(x, i, v):
        return x.index_put((i,), v, accumulate=True)

    module = check(rows, numbers(7, 33, dtype=dtype), places(50, below=7), numbers(50, 33, dtype=dtype))
    assert [k.group.body[-1].mode for k in kernels(module)] == ["add"]
    check(rows, numbers(5, dtype=dtype), places(90, below=5), numbers(90, dtype=dtype))
    check(rows, numbers(5, 1, dtype=dtype), places(9, 2, below=5), numbers(1, dtype=dtype))
    check(rows, numbers(1, 40, dtype=dtype), places(3, below=1), numbers(3, 40, dtype=dtype))


@pytest.mark.parametrize("dtype", [*ADDED, torch.bfloat16, torch.float16, torch.bool], ids=str)
def test_different_places_are_set(dtype: torch.dtype) -> None:
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))[:6]

    def f(x, i, v):
        return x.index_put((i,), v), x.index_put((i, i), v[:, 0]), torch.ops.aten.index_put(x, [None, i], v[0, :6])

    check(f, numbers(9, 21, dtype=dtype), order, numbers(6, 21, dtype=dtype))


def test_index_add_along_each_dimension() -> None:
    def f(x, i, v, w):
        return x.index_add(0, i, v), x.index_add(1, i, w) * 2, x.index_add(-1, i, w, alpha=2)

    i = torch.tensor([3, 0, 3, 2])
    check(f, numbers(5, 37), i, numbers(4, 37), numbers(5, 4))


def test_nan_and_infinity_are_added_as_they_are() -> None:
    v = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0, -0.0])
    i = torch.tensor([0, 1, 1, 2, 3])
    check(lambda x, i, v: x.index_put((i,), v, accumulate=True), torch.zeros(5), i, v)


def test_a_base_that_is_still_read_keeps_its_values() -> None:
    def f(x, i, v):
        base = x * 2
        return base.index_put((i,), v, accumulate=True), base + 1

    check(f, numbers(6, 20), places(9, below=6), numbers(9, 20))
    module = check(
        lambda i, v: torch.zeros(6, 20).index_put((i,), v, accumulate=True), places(9, below=6), numbers(9, 20)
    )
    assert "copy_" not in module.wrapper


TWICE = torch.tensor([0, 0])
BASES = {
    "transposed": lambda x: x.t().unsqueeze(0).index_put((TWICE,), torch.ones(2, 3), accumulate=True),
    "of other sizes": lambda x: x.view(2, 3).index_put((TWICE,), torch.ones(2, 3), accumulate=True),
    "a part": lambda x: x[:2].index_add(0, TWICE, torch.ones(2, 2)),
}


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("name", BASES)
def test_a_base_that_is_a_view(name, is_kept) -> None:
    """The result is as large as the view, not as the memory that the view is of."""

    def program(x):
        base = x * 2
        result = BASES[name](base)
        return (result, base) if is_kept else (result,)

    x = torch.randn(3, 2)
    for found, expected in zip(dynascope.compile(program)(x), program(x), strict=True):
        assert found.shape == expected.shape and found.stride() == expected.stride()
        assert torch.equal(found, expected)
        assert found.untyped_storage().nbytes() == expected.untyped_storage().nbytes()


def test_a_place_outside_raises_and_nothing_outside_is_written() -> None:
    _, call = compiled(
        lambda x, i, v: x.index_put((i,), v, accumulate=True), [numbers(4, 8), places(3, below=4), numbers(3, 8)]
    )
    for wrong in (4, -5):
        with pytest.raises(IndexError, match="out of"):
            call(numbers(4, 8), torch.tensor([0, wrong, 1]), numbers(3, 8))


def test_writing_through_an_index_changes_the_input() -> None:
    def program(x, i, v):
        x[i] = v
        x[i] += 1
        return x.sum()

    i = torch.tensor([5, -6, 3])
    mine, theirs = numbers(8, 16), numbers(8, 16)
    with torch.no_grad():
        result, expected = dynascope.compile(program)(mine, i, numbers(3, 16)), program(theirs, i, numbers(3, 16))
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(mine, theirs)


def test_the_gradient_of_an_embedding_is_a_kernel_for_any_number_of_threads() -> None:
    table, index = numbers(300, 128), places(5000, below=300) % 300
    gradient = torch.randn(5000, 128, generator=torch.Generator().manual_seed(2))

    def f(table, index):
        return torch.nn.functional.embedding(index, table, padding_idx=3)

    results = []
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        leaf = table.clone().requires_grad_()
        results += torch.autograd.grad(dynascope.compile(f)(leaf, index), leaf, gradient)
        torch.set_num_threads(before)
    leaf = table.clone().requires_grad_()
    torch.testing.assert_close(results[0], *torch.autograd.grad(f(leaf, index), leaf, gradient), rtol=1e-5, atol=1e-4)
    assert torch.equal(results[0], results[1])


def test_the_loops_print() -> None:
    from dynascope.loops.printing import print_node

    module, _ = compiled(
        lambda x, i, v: x.index_put((i,), v, accumulate=True), [numbers(7, 33), places(5, below=7), numbers(5, 33)]
    )
    text = "\n".join(print_node(node) for node in module.schedule.program.nodes)
    assert "= scatter(i0: 5, i1: 33) into x" in text and "+=" in text
