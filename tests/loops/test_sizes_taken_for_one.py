"""A size that is 1 at the call that is compiled, by an expression (`n - (n + 1) // 2` of 3 rows), is repeated as eager repeats it: kernels
read past the end of it where they took its stride for the others'."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.sizes import Scope
from dynascope.sizes.structure import is_relied_to_be

PROGRAMS = {
    "product": lambda a, b: a * b,
    "computed": lambda a, b: a.exp() + b.sin(),
    "chosen": lambda a, b: torch.where(a > b, a, b),
    "interpolated": lambda a, b: torch.lerp(a, b, b),
    "summed": lambda a, b: (a * b).sum(0),
    "expanded": lambda a, b: b.exp().expand_as(a) * 2,
    "of indices": lambda a, b: a[torch.arange(a.shape[0])[:, None], torch.arange(b.shape[0])],
    "written": lambda a, b: a.clone().copy_(b.exp()),
    "scattered": lambda a, b: torch.zeros_like(a).index_put((torch.arange(2),), b),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_halves_of_three_rows(name):
    def program(x):
        return PROGRAMS[name](*(x * x).chunk(2))

    compiled = dynascope.compile(program, dynamic=True)
    for rows in (3, 4, 3, 2) if name != "scattered" else (3, 4, 3):
        x = torch.arange(1.0, 5 * rows + 1).view(rows, 5)
        given = [x.clone().requires_grad_() for _ in range(2)]
        found, expected = compiled(given[0]), program(given[1])
        torch.testing.assert_close(found, expected)
        found.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(given[0].grad, given[1].grad)


def test_what_is_relied_on_is_known():
    n = Scope().root("n", 3, 2)
    half = n - (n + 1) // 2
    assert not is_relied_to_be(half, 1) and not is_relied_to_be(n, 1)
    assert half == 1
    assert is_relied_to_be(half, 1) and not is_relied_to_be(half, 2)
    assert is_relied_to_be(1, 1) and not is_relied_to_be(2, 1)
