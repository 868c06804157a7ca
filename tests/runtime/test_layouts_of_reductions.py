"""Every kind of reduction over every layout of its operand: what is counted is the tensor's own order, never the memory's.

Values are small whole numbers, so that the greatest occurs several times and sums are exact in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from compiled import check

pytestmark = pytest.mark.compiler


def numbers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randint(0, 5, sizes, generator=generator).to(dtype)


LAYOUTS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "contiguous": lambda t: numbers(5, 7, 33, dtype=t),
    "transposed": lambda t: numbers(33, 7, 5, dtype=t).permute(2, 1, 0),
    "middle-last": lambda t: numbers(5, 33, 7, dtype=t).permute(0, 2, 1),
    "rotated": lambda t: numbers(7, 33, 5, dtype=t).permute(2, 0, 1),
    "stepped": lambda t: numbers(10, 7, 66, dtype=t)[::2, :, ::2],
    "offset": lambda t: numbers(6, 9, 40, dtype=t)[1:, 2:, 5:38],
    "expanded-last": lambda t: numbers(5, 7, 1, dtype=t).expand(5, 7, 33),
    "expanded-first": lambda t: numbers(1, 7, 33, dtype=t).expand(5, 7, 33),
    "expanded-middle": lambda t: numbers(33, 5, dtype=t).t()[:, None].expand(5, 7, 33),
    "repeated": lambda t: numbers(1, 1, 1, dtype=t).expand(5, 7, 33),
    "overlapping": lambda t: numbers(60, dtype=t).as_strided((5, 7, 33), (3, 2, 1)),
    "one-sized": lambda t: numbers(33, 1, 5, dtype=t).permute(2, 1, 0),
    "long": lambda t: numbers(515, 9, dtype=t).t()[None],
    "two": lambda t: numbers(2, 3, 2, dtype=t).permute(2, 0, 1),
}
REDUCTIONS: dict[str, Callable] = {
    "sum": torch.sum,
    "mean": lambda x, *d: torch.mean(x.float(), *d),
    "prod": lambda x, *d: torch.prod((x % 2) + 1, *d) if not d or not isinstance(d[0], tuple) else x.sum(*d),
    "amax": lambda x, *d: torch.amax(x, *d) if d else torch.max(x),
    "amin": lambda x, *d: torch.amin(x, *d) if d else torch.min(x),
    "any": lambda x, *d: torch.any(x == 4, *d),
    "all": lambda x, *d: torch.all(x != 4, *d),
    "argmax": lambda x, *d: torch.argmax(x, *d) if not d or not isinstance(d[0], tuple) else x.argmax(),
    "argmin": lambda x, *d: torch.argmin(x, *d) if not d or not isinstance(d[0], tuple) else x.argmin(),
    "var": lambda x, *d: torch.var(x.double(), *d),
}
DIMENSIONS = ((), (0,), (1,), (2,), ((0, 2),), ((2, 1),))


@pytest.mark.turns(6)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str, layout: str) -> None:
    reduce, x = REDUCTIONS[name], LAYOUTS[layout](torch.float32)
    module = check(
        lambda x: tuple(reduce(x, *d) for d in DIMENSIONS), x, tolerance=1e-5 if name in ("mean", "var") else 0
    )
    assert any(kernel is not None for kernel in module.kernels)


@pytest.mark.turns(6)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("layout", ["transposed", "rotated", "stepped", "expanded-middle", "long"])
def test_place_in_each_type(dtype: torch.dtype, layout: str) -> None:
    check(lambda x: (x.argmax(), x.argmin(), *x.max(1), *x.min(2), x.argmax(0)), LAYOUTS[layout](dtype))


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "rotated", "expanded-first"])
def test_places_of_one_tensor_in_several_orders(layout: str) -> None:
    """Reductions that share a kernel count each in its own order."""
    x = LAYOUTS[layout](torch.float32)

    def places(x: torch.Tensor) -> tuple:
        y = x * 2
        return y.argmax(), y.permute(2, 0, 1).argmax(), y.sum(), y.mT.argmin(), y.flip(1).argmax(), y.permute(2, 1, 0)

    check(places, x)


def test_not_a_number_at_its_first_place() -> None:
    x = torch.zeros(40, 37)
    x[3, 20] = x[30, 2] = x[4, 1] = float("nan")
    check(
        lambda x: (x.argmax(), x.t().argmax(), x.t().argmin(), x[::3].t().argmax(), *x.t().max(0)),
        x.t().contiguous().t(),
    )


def test_random_layouts() -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    for number in range(6):
        check(_every_reduction, random_layout(random.Random(seed + number)), tolerance=1e-5)


def _every_reduction(x: torch.Tensor) -> tuple:
    some = tuple(range(0, x.dim(), 2))
    return (x.argmax(), x.argmin(), x.sum(), x.sum(some), x.amax(some), x.prod(0), x.argmax(-1), x.var(some), *x.min(0))


def random_layout(choice: random.Random) -> torch.Tensor:
    """A tensor made by some steps of permuting, slicing, expanding and joining dimensions."""
    x = numbers(*(choice.choice((1, 2, 3, 8, 17, 33)) for _ in range(choice.randint(1, 4))))
    for _ in range(choice.randint(1, 4)):
        order = list(range(x.dim()))
        choice.shuffle(order)
        d = choice.randrange(x.dim())
        x = choice.choice((
            lambda: x.permute(order),  # noqa: B023
            lambda: x.narrow(d, x.shape[d] // 3, x.shape[d] - x.shape[d] // 3),  # noqa: B023
            lambda: x.unsqueeze(d).expand(*x.shape[:d], 3, *x.shape[d:]) if x.dim() < 5 else x,  # noqa: B023
            lambda: x[(slice(None),) * d + (slice(None, None, 2),)],  # noqa: B023
        ))()  # fmt: skip
    return x
