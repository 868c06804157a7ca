"""Random graphs of 5 to 60 operators with their gradients, as near to a float64 run of the same graph as eager is.

    python tests/differential/random_gradients.py --count 300        prints the failing seeds

Every operator is continuous, so that a rounding error cannot change which branch an element takes.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable

import dynascope
import torch
import torch.nn.functional as F

Operator = Callable[..., torch.Tensor]
ONE: tuple[Operator, ...] = (
    torch.tanh, torch.sigmoid, torch.relu, torch.neg, torch.abs, torch.sin, torch.cos, torch.erf, torch.square, torch.atan,
    F.gelu, F.silu, F.mish, F.softplus, F.elu, F.leaky_relu, F.hardtanh, lambda x: F.gelu(x, approximate="tanh"),
    lambda x: x.clamp(-1.5, 1.5), lambda x: x * 0.5 + 1, lambda x: 2 - x, lambda x: 1 / (x * x + 1), lambda x: (x.abs() + 1).log(),
    lambda x: (x * x + 1).sqrt(), lambda x: (x * x + 1) ** -0.5, lambda x: x**3 / 10, lambda x: torch.exp(-x * x),
    lambda x: x.double().sin().float() if x.dtype == torch.float32 else x.sin(), lambda x: x.detach() + x, lambda x: x.clone(),
)  # fmt: skip
SHAPING: tuple[Operator, ...] = (
    lambda x: x.mT, lambda x: x.flip(0), lambda x: x.reshape(x.shape[-1], -1), lambda x: x[1:], lambda x: x[..., ::2],
    lambda x: x.roll(1, -1), lambda x: x.tril(), lambda x: x.triu(-1), lambda x: torch.cat([x, x.flip(-1)], -1),
    lambda x: torch.stack([x, x * 2]).sum(0), lambda x: F.pad(x, (1, 2)), lambda x: x.unsqueeze(0).expand(2, *x.shape).mean(0),
    lambda x: x.index_select(0, torch.tensor([0, 1, 0])), lambda x: x[torch.tensor([1, 0, 1])], lambda x: x.unfold(-1, 2, 1).sum(-1),
    lambda x: x.softmax(-1), lambda x: x.log_softmax(0), lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: x.cumsum(-1) / 4,
    lambda x: x - x.mean(-1, keepdim=True), lambda x: x / (x.std(-1, keepdim=True) + 1), lambda x: x * x.amax(-1, keepdim=True),
    lambda x: x.sum(0, keepdim=True) / 4 + x, lambda x: x.var(0, unbiased=False) + x, lambda x: x.logsumexp(-1, keepdim=True) - x,
    lambda x: x.norm(dim=-1, keepdim=True) + x, lambda x: x.sum(), lambda x: F.normalize(x, dim=-1), lambda x: x @ x.mT / 8,
    lambda x: x.masked_fill(x.detach() > 1e9, 0.0), lambda x: x.split(2, -1)[0], lambda x: x.chunk(2, 0)[-1],
)  # fmt: skip
TWO: tuple[Operator, ...] = (
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.hypot, lambda x, y: x / (y * y + 1),
    lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: torch.addcmul(x, x, y, value=0.5), lambda x, y: torch.add(x, y, alpha=2),
    lambda x, y: torch.atan2(x, y * y + 1), lambda x, y: torch.logaddexp(x, y), lambda x, y: x + y.detach(),
    lambda x, y: written(x, y),
)  # fmt: skip
MOST_ELEMENTS = 3000


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """In-place writes through views, where the sizes allow it."""
    out = (x + y) * 1
    if out.dim():
        out[0].mul_(0.5)
        out[..., -1].add_(1)
    return out


def graph(seed: int, inputs: list[torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A function of tensors of these sizes, the same for the same seed. What it does is decided here, and it is one graph."""
    steps: list[tuple[Operator, list[int]]] = []
    choose, values = random.Random(seed), list(inputs)
    for _ in range(choose.randint(5, 60)):
        kind, recent = choose.random(), range(max(0, len(values) - 5), len(values))
        operator = choose.choice(ONE if kind < 0.4 else SHAPING if kind < 0.65 else TWO)
        places = [choose.choice(recent), choose.choice(range(len(values)))][: 2 if operator in TWO else 1]
        value = applied(operator, [values[place] for place in places])
        if value is not None:
            values.append(value)
            steps.append((operator, places))

    def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = list(inputs)
        for operator, places in steps:
            values.append(operator(*[values[place] for place in places]))
        return tuple(values[-3:])

    return run


def applied(operator: Operator, operands: list[torch.Tensor]) -> torch.Tensor | None:
    """None where the sizes do not suit the operator, or make too much."""
    shapes = [operand.shape for operand in operands]
    if operator in SHAPING and (len(shapes[0]) < 2 or min(shapes[0]) < 2):
        return None
    if operator in TWO and any(
        a != b and 1 not in (a, b) for a, b in zip(*(shape[::-1] for shape in shapes), strict=False)
    ):
        return None
    value = operator(*operands)
    return value if 0 < value.numel() <= MOST_ELEMENTS and value.dim() <= 4 else None


def observed(function: Callable, inputs: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor | None]:
    """Results, then gradients."""
    inputs = [tensor.to(dtype).requires_grad_() for tensor in inputs]
    outputs = function(*inputs)
    generator = torch.Generator().manual_seed(0)
    seeds = [torch.randn(output.shape, generator=generator).to(dtype) for output in outputs]
    pairs = [(output, seed) for output, seed in zip(outputs, seeds, strict=True) if output.requires_grad]
    if not pairs:
        return list(outputs)
    results, given = zip(*pairs, strict=True)
    return [*outputs, *torch.autograd.grad(results, inputs, given, allow_unused=True)]


def check_seed(seed: int, dtype: torch.dtype = torch.float32) -> None:
    """Raises AssertionError where ours is farther from float64 than eager by more than roundings can explain."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [(6, 8), (3, 4, 10), (17, 5), (2, 3, 4, 2), (33, 16)][seed % 5]
    inputs = [torch.randn(s, generator=generator) for s in (sizes, sizes, sizes[-1:])]
    run = graph(seed, inputs)
    exact, eager = observed(run, inputs, torch.float64), observed(run, inputs, dtype)
    ours = observed(dynascope.compile(run), inputs, dtype)
    for place, (a, b, c) in enumerate(zip(ours, eager, exact, strict=True)):
        assert (a is None) == (b is None), f"{place}: a gradient is None in one of them"
        if a is None or b is None or c is None:
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape), place
        scale = c.abs().max().item() * torch.finfo(dtype).eps
        error, allowed = (a - c).abs().max().item(), 8 * (b - c).abs().max().item() + 40 * scale + 1e-30
        assert error <= allowed or not torch.isfinite(b).all(), (
            f"{place}: off by {error:.3g}, eager by {allowed:.3g} / 8"
        )
        assert torch.equal(a.isnan(), b.isnan()), f"{place}: NaN in other places"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    failed = []
    for seed in range(options.first, options.first + options.count):
        try:
            check_seed(seed, getattr(torch, options.dtype))
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{options.count - len(failed)} passed, {len(failed)} failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
