"""Random graphs of 5 to 40 operators, compared with eager."""

from __future__ import annotations

import random

import pytest
import torch
from compiled import compiled
from torch.nn import functional

pytestmark = pytest.mark.compiler

UNARY = (torch.exp, torch.tanh, torch.sigmoid, torch.relu, torch.neg, torch.abs, torch.floor, torch.sin, functional.gelu,
         lambda x: x.clamp(-2, 2), lambda x: x * 0.5 + 1, lambda x: x > 0, lambda x: x.transpose(-1, -2), lambda x: x.flip(0),
         lambda x: x.reshape(-1), lambda x: x[..., :1], lambda x: x[1:], lambda x: x.unsqueeze(0), lambda x: x.double().float(),
         lambda x: x.contiguous(), lambda x: x.reshape(x.numel() // 2, 2) if x.numel() % 2 == 0 else x,
         lambda x: x.softmax(-1), lambda x: x.sum(-1, keepdim=True), lambda x: x.mean(0), lambda x: x.amax(-1),
         lambda x: x.sum(), lambda x: x.var(-1, unbiased=False, keepdim=True), lambda x: torch.cat([x, x], -1),
         lambda x: functional.pad(x, (1, 1)), lambda x: x.to(torch.bfloat16).float(), lambda x: x.argmax(-1).float(),
         lambda x: x.index_select(0, torch.zeros(3, dtype=torch.int64, device=x.device)), lambda x: x.expand(2, *x.shape))  # fmt: skip
BINARY = (
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: x / (y.abs() + 1),
)
MOST_ELEMENTS = 4000


def program(seed: int):
    """A function of two tensors, the same for the same seed: it returns some of what it computed."""

    def run(x, y):
        choose = random.Random(seed)
        values = [x, y]
        for _ in range(choose.randint(5, 40)):
            if choose.random() < 0.5:
                value = _unary(choose, values)
            else:
                value = _binary(choose, values)
            if value is not None and 0 < value.numel() <= MOST_ELEMENTS and value.dim() <= 5:
                values.append(value.float() if value.dtype == torch.bool else value)
        return tuple(values[-1 - k] for k in range(min(3, len(values) - 2))) or (x + y,)

    return run


def _unary(choose, values):
    operator, value = choose.choice(UNARY), choose.choice(values[-6:])
    if value.dim() < 2:
        operator = choose.choice(UNARY[:11])
    return operator(value)


def _binary(choose, values):
    operator, a, b = choose.choice(BINARY), choose.choice(values), choose.choice(values[-4:])
    try:
        torch.broadcast_shapes(a.shape, b.shape)
    except RuntimeError:
        return None
    return operator(a, b)


def _strides(tensor):
    """Strides that matter: those of dimensions of size 1 differ between meta and CPU kernels."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def check_seed(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = [(6, 8), (3, 4, 10), (17, 5), (2, 3, 4, 2), (64, 33)][seed % 5]
    inputs = [torch.randn(sizes, generator=generator), torch.randn(sizes[-1:], generator=generator)]
    run = program(seed)
    _, call = compiled(run, inputs)
    for actual, expected in zip(call(*inputs), run(*inputs), strict=True):
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        assert _strides(actual) == _strides(expected)
        torch.testing.assert_close(
            actual, expected, rtol=2e-4, atol=2e-4, equal_nan=True, msg=lambda m: f"seed {seed}: {m}"
        )


@pytest.mark.parametrize("seed", range(40))
def test_random_graph(seed: int) -> None:
    check_seed(seed)
