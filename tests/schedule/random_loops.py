"""Random programs of operators that become loops: their arguments come from what was made before, of all layouts and types.

    program = RandomProgram(seed)
    program(*program.inputs)        eager; recorded on meta tensors it is a graph

A statement that eager refuses for the tensors at hand is left out. Numbers are small and float64, so that nothing is said of rounding.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Statement = Callable[..., Any]


def _steady(x: torch.Tensor) -> torch.Tensor:
    """What is compared, or cut off, is not decided by the last digit."""
    return (x * 16).round() / 16


def _unary(choose: random.Random) -> Statement:
    number = choose.choice((0.5, 2, -1.5, 3))
    return choose.choice((
        lambda x: x.sin(), lambda x: x.tanh() * number, lambda x: x.abs() + number, lambda x: x.relu(), lambda x: -x, lambda x: x * x + 1,
        lambda x: x.sigmoid().log(), lambda x: x.clamp(-0.5, number), lambda x: (_steady(x) > number).double(),
        lambda x: _steady(x).floor() + x, lambda x: torch.where(_steady(x) > 0, x, number), lambda x: F.gelu(x), lambda x: F.hardswish(x),
        lambda x: x.pow(2), lambda x: x / number, lambda x: _steady(x).remainder(number), lambda x: x.erf(), lambda x: x.float().double(),
        lambda x: _steady(x).bfloat16().double(), lambda x: (_steady(x) * 4).long().remainder(7).double(), lambda x: F.leaky_relu(x, 0.1),
        lambda x: x.exp().clamp(max=9),
    ))  # fmt: skip


def _binary(choose: random.Random) -> Statement:
    return choose.choice((
        torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda x, y: torch.atan2(_steady(x), _steady(y)),
        lambda x, y: x / (y.abs() + 1), torch.hypot, lambda x, y: torch.where(_steady(x) > _steady(y), x, y * 2),
        lambda x, y: torch.addcmul(x, x, y, value=0.5), lambda x, y: torch.lerp(x, y, 0.3),
        lambda x, y: (_steady(x) == _steady(y)).double(), lambda x, y: torch.add(x, y, alpha=-2),
        lambda x, y: torch.copysign(x, _steady(y)),
    ))  # fmt: skip


def _view(choose: random.Random) -> Statement:
    a, b, step = choose.randint(0, 2), choose.randint(1, 4), choose.randint(1, 2)

    def at(x: torch.Tensor) -> int:
        return a % x.dim()

    return choose.choice((
        lambda x: x.transpose(0, -1), lambda x: x.mT if x.dim() > 1 else x + 1, lambda x: x.unsqueeze(at(x)), lambda x: x.squeeze(),
        lambda x: x.select(at(x), -1), lambda x: x.narrow(at(x), 0, min(b, x.shape[at(x)])), lambda x: x.reshape(-1),
        lambda x: x.flatten(-2), lambda x: x.expand(b, *x.shape), lambda x: x[..., a::step],
        lambda x: x.unfold(-1, min(b, x.shape[-1]), step), lambda x: x.diagonal(a - 1), lambda x: x.permute(*range(1, x.dim()), 0),
        lambda x: x.reshape(x.shape[0], -1).t().contiguous(), lambda x: x.unflatten(-1, (-1, 2)), lambda x: x[..., None, :],
        lambda x: x.chunk(2, -1)[-1],
    ))  # fmt: skip


def _moved(choose: random.Random) -> Statement:
    a, b, other = choose.randint(0, 2), choose.randint(-2, 3), choose.choice((0.0, 1.5))
    return choose.choice((
        lambda x: x.flip(a % x.dim()), lambda x: x.flip(tuple(range(x.dim()))), lambda x: F.pad(x, (a, b), value=other),
        lambda x: x.tril(b), lambda x: F.pad(x, (a, 1, b, 0), value=other), lambda x: x.triu(b), lambda x: x.contiguous(),
        lambda x: x.clone(), lambda x: x.repeat(2, *[1] * (x.dim() - 1)), lambda x: x.roll(b, -1),
        lambda x: torch.cat([x, x * 2, x], a % x.dim()), lambda x: torch.stack([x, -x], -1), lambda x: torch.zeros_like(x) + other,
        lambda x: torch.full_like(x, other), lambda x: torch.cat([x[..., :1], x + 1], -1),
        lambda x: x.select_scatter(x.select(0, 0), 0, -1), lambda x: x.slice_scatter(x[..., :1] + other, -1, 1, 2),
        lambda x: x.repeat_interleave(2, -1),
    ))  # fmt: skip


def _reduction(choose: random.Random) -> Statement:
    keeps, sample = choose.random() < 0.5, choose.random()

    def over(x: torch.Tensor) -> tuple[int, ...]:
        chosen = int(sample * 16)
        return tuple(d for d in range(x.dim()) if chosen >> d & 1) or (0,) * min(x.dim(), 1)

    def one(x: torch.Tensor) -> int:
        return int(sample * 100) % max(x.dim(), 1)

    return choose.choice((
        lambda x: x.sum(over(x), keepdim=keeps), lambda x: x.mean(over(x), keepdim=keeps), lambda x: x.amax(over(x), keepdim=keeps),
        lambda x: x.amin(over(x), keepdim=keeps), lambda x: x.softmax(one(x)), lambda x: x.log_softmax(one(x)), lambda x: x.sum(),
        lambda x: x.sum(), lambda x: x.var(over(x), keepdim=keeps, correction=0), lambda x: _steady(x).argmax(one(x)).double(),
        lambda x: _steady(x).argmin(one(x), keepdim=True).double(), lambda x: x.prod(one(x)), lambda x: x.max(one(x))[0],
        lambda x: _steady(x).min(one(x))[1].double(), lambda x: (_steady(x) > 0).any(one(x)).double(),
        lambda x: (_steady(x) > 0).all().double(), lambda x: x.logsumexp(one(x)), lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: x.cumsum(one(x)), lambda x: x.sum(over(x), keepdim=True) + x, lambda x: (x - x.mean(-1, keepdim=True)).sum(0),
        lambda x: x.softmax(-1) * x.sum(-1, keepdim=True), lambda x: (x.softmax(-1).amax(-1), x.sum(0))[int(keeps)],
        lambda x: _steady(x).argmax().double(), lambda x: x.max(), lambda x: x.expand(3, *x.shape).sum(0),
    ))  # fmt: skip


def _places(choose: random.Random) -> Statement:
    number = choose.randint(1, 9)

    def within(x: torch.Tensor, dimension: int, y: torch.Tensor) -> torch.Tensor:
        return (_steady(y).flatten()[: number % 4 + 1].nan_to_num().clamp(-99, 99) * number).long().remainder(x.shape[dimension])

    return choose.choice((
        lambda x, y: x[within(x, 0, y)], lambda x, y: x[..., within(x, -1, y)], lambda x, y: x.index_select(-1, within(x, -1, y)),
        lambda x, y: F.embedding(within(x, 0, y), x), lambda x, y: x[within(x, 0, y), within(x, 1, y)],
        lambda x, y: x[within(x, 0, y) - x.shape[0]], lambda x, y: x.index_add(0, within(x, 0, y), x[within(x, 0, y)]),
        lambda x, y: x.index_put((within(x, 0, y),), x[:1] * 2, accumulate=True),
        lambda x, y: x.gather(-1, (_steady(x) * number).long().remainder(x.shape[-1])),
        lambda x, y: x.scatter_add(0, torch.zeros_like(x).long(), x + 1),
        lambda x, y: F.one_hot(within(x, -1, y), x.shape[-1]).double() + x[..., :1, :],
        lambda x, y: x.index_fill(0, within(x, 0, y), 2.0), lambda x, y: torch.zeros_like(x).index_put((within(x, 0, y),), x[:1]),
    ))  # fmt: skip


def _windows(choose: random.Random) -> Statement:
    width, step, padding = choose.randint(1, 3), choose.randint(1, 2), choose.randint(0, 1)
    padding = min(padding, width // 2)

    def images(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(1, 1, -1, x.shape[-1]) if x.dim() < 4 else x

    return choose.choice((
        lambda x: F.max_pool2d(images(x), width, step, padding),
        lambda x: F.avg_pool2d(images(x), width, step, padding, count_include_pad=step == 1),
        lambda x: F.interpolate(images(x), scale_factor=width, mode="nearest"),
        lambda x: F.interpolate(images(x), size=(3, 5), mode="bilinear"),
        lambda x: F.pad(images(x), (padding, 1, 1, padding), mode="reflect"), lambda x: F.adaptive_avg_pool2d(images(x), (2, 1)),
        lambda x: F.max_pool2d(images(_steady(x)), width, step, padding, return_indices=True)[1].double(),
        lambda x: F.pixel_shuffle(images(x).expand(1, 4, -1, -1), 2),
    ))  # fmt: skip


def _library(choose: random.Random) -> Statement:
    return choose.choice((
        lambda x, y: x.flatten(1) @ x.flatten(1).t(), lambda x, y: (x.transpose(-1, -2) @ x).tanh(), lambda x, y: x.reshape(-1).sort()[0],
    ))  # fmt: skip


def _gradient(choose: random.Random) -> Statement:
    forward = choose.choice((_reduction, _reduction, _unary, _moved, _windows))(choose)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            result = forward(leaf.clone())
            return torch.autograd.grad((result * result.detach().cos()).sum(), leaf)[0]

    return gradient


def _write(choose: random.Random) -> Statement:
    """Into memory made here, through a view of it."""
    number = choose.choice((0.5, -2.0))

    def written(x: torch.Tensor, y: torch.Tensor, view: Statement, write: Statement) -> torch.Tensor:
        fresh = x * 1
        write(view(fresh), y)
        return fresh

    view = choose.choice((
        lambda x: x, lambda x: x[0], lambda x: x[..., 1:], lambda x: x[..., ::2], lambda x: x.transpose(0, -1),
        lambda x: x.reshape(-1)[2:5], lambda x: x.diagonal(), lambda x: x.narrow(0, 0, 1), lambda x: x.unsqueeze(0).select(-1, -1),
    ))  # fmt: skip
    write = choose.choice((
        lambda x, y: x.mul_(number), lambda x, y: x.add_(y.mean()), lambda x, y: x.zero_(), lambda x, y: x.copy_(y.flatten()[0]),
        lambda x, y: x.sin_(), lambda x, y: x.fill_(number), lambda x, y: x.clamp_(-1, 1),
        lambda x, y: x.masked_fill_(_steady(x) > 0, number), lambda x, y: x.copy_(y.reshape(x.shape)),
        lambda x, y: x.index_add_(0, torch.tensor([0]), x[:1] * 2), lambda x, y: x.sub_(y.sum(), alpha=number),
    ))  # fmt: skip
    return lambda x, y: written(x, y, view, write)


KINDS = (
    (_unary, 1, 4), (_binary, 2, 4), (_view, 1, 3), (_moved, 1, 2), (_reduction, 1, 4), (_places, 2, 2), (_windows, 1, 1),
    (_library, 2, 1), (_gradient, 1, 2),
)  # fmt: skip
"""How a statement is drawn, how many tensors it takes, how often."""
SIZES = (1, 2, 3, 4, 5, 6)
MOST_ELEMENTS = 600


class RandomProgram:
    """Of `statements`; with `writes` some change what was made before, and none differentiates."""

    def __init__(self, seed: int, statements: int = 8, writes: bool = False) -> None:
        self.choose = random.Random(seed)
        self.kinds = (*KINDS[:-1], (_write, 2, 4)) if writes else KINDS
        self.inputs = [self._input(seed + k) for k in range(self.choose.randint(1, 3))]
        self.statements: list[tuple[Statement, tuple[int, ...]]] = []
        self.returned: tuple[int, ...] = ()
        values = list(self.inputs)
        for _ in range(statements):
            self._add(values)
        count = self.choose.randint(1, 3)
        self.returned = tuple(dict.fromkeys([len(values) - 1, *(self.choose.randrange(len(values)) for _ in range(count))]))

    def _input(self, seed: int) -> torch.Tensor:
        sizes = self.choose.choices(SIZES, k=self.choose.randint(1, 3))
        generator = torch.Generator().manual_seed(seed)
        whole = torch.randint(-12, 13, [size + 1 for size in sizes], generator=generator).double() / 4
        return self.choose.choice((
            lambda: whole, lambda: whole.mT if whole.dim() > 1 else whole, lambda: whole[1:], lambda: whole[..., ::2],
            lambda: whole[:1].expand(sizes[0] + 1, *whole.shape[1:]), lambda: whole.transpose(0, -1)[..., 1:], lambda: whole[-1],
        ))()  # fmt: skip

    def _add(self, values: list[torch.Tensor]) -> None:
        write, count, _ = self.choose.choices(self.kinds, [weight for _, _, weight in self.kinds])[0]
        statement = write(self.choose)
        arguments = tuple(self.choose.randrange(max(0, len(values) - 5), len(values)) for _ in range(count))
        try:
            result = statement(*(values[number] for number in arguments))
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError, ZeroDivisionError):
            return
        if 0 < result.numel() <= MOST_ELEMENTS and bool((result.abs() < 1e6).all()):
            self.statements.append((statement, arguments))
            values.append(result)

    def __call__(self, a: torch.Tensor, b: torch.Tensor | None = None, c: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        values = [each for each in (a, b, c) if each is not None]
        for statement, arguments in self.statements:
            values.append(statement(*(values[number] for number in arguments)))
        return tuple(values[number] for number in self.returned)
