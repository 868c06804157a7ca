"""Random training steps: parameters shared and frozen, losses over a part of the results, views among them, three calls.

    python tests/differential/random_training.py --count 100        prints the failing seeds

Compared with eager: results, what shares memory, gradients with their strides and memory, after each of three calls whose
gradients accumulate and are clipped; calls are differentiated in their own order or in the reverse.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable

import dynascope
import torch
import torch.nn.functional as F
from torch import nn

STEPS: tuple[Callable, ...] = (
    lambda h, p: torch.tanh(h), lambda h, p: h.relu(), lambda h, p: h + p[0], lambda h, p: h * p[1], lambda h, p: h @ p[2],
    lambda h, p: F.layer_norm(h, h.shape[-1:], p[0]), lambda h, p: h.softmax(-1), lambda h, p: h.exp().clamp(max=3),
    lambda h, p: h.sigmoid(), lambda h, p: h - h.detach().mean(), lambda h, p: F.linear(h, p[2], p[1]),
    lambda h, p: h @ p[2].t() + p[0], lambda h, p: torch.cat([h, p[0].expand_as(h[:1])])[1:], lambda h, p: h.t().contiguous().t(),
    lambda h, p: (h + p[0]) * (h + p[1]), lambda h, p: h.clone().add_(p[0]), lambda h, p: F.gelu(h) + p[1].sum(),
    lambda h, p: h.flip(0), lambda h, p: h.abs().sqrt(), lambda h, p: h / (h.norm(dim=-1, keepdim=True) + 1),
    lambda h, p: torch.where(h > 0, h, h * p[0]), lambda h, p: (h * h).cumsum(0) / 4, lambda h, p: F.dropout(h, 0.3),
)  # fmt: skip
RESULTS: tuple[Callable, ...] = (
    lambda h: h, lambda h: h.t(), lambda h: h[0], lambda h: h.detach(), lambda h: h.sum(), lambda h: h[:, 1:], lambda h: h.view(-1),
    lambda h: h.log(), lambda h: h.pow(2).mean(), lambda h: h * 1, lambda h: h.detach()[1], lambda h: h.sqrt(), lambda h: h.max(),
)  # fmt: skip


class Model(nn.Module):
    """Its computation is decided by the seed; parameters may be one tensor under two names, or frozen."""

    def __init__(self, choose: random.Random) -> None:
        super().__init__()
        torch.manual_seed(choose.randint(0, 99))
        self.a, self.b, self.w = (
            nn.Parameter(torch.rand(5)),
            nn.Parameter(torch.rand(5)),
            nn.Parameter(torch.rand(5, 5) / 3),
        )
        if choose.random() < 0.3:
            self.b = self.a
        if choose.random() < 0.3:
            choose.choice([self.a, self.b, self.w]).requires_grad_(False)
        self.steps = [choose.choice(STEPS) for _ in range(choose.randint(1, 8))]
        self.taken = [(choose.randint(0, len(self.steps)), choose.choice(RESULTS)) for _ in range(choose.randint(1, 4))]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [x * 1]
        for step in self.steps:
            values.append(step(values[-1], (self.a, self.b, self.w)))
        return tuple(take(values[at]) if values[at].is_contiguous() else values[at] * 2 for at, take in self.taken)


def observed(seed: int, wrap: Callable) -> list:
    choose = random.Random(seed)
    model = Model(choose)
    run, seen = wrap(model), []
    used = [i for i in range(len(model.taken)) if choose.random() < 0.6]
    backwards, squared, given = choose.random() < 0.3, choose.random() < 0.5, choose.random() < 0.7
    losses, inputs = [], []
    for call in range(3):
        torch.manual_seed(call)
        x = (torch.rand(4, 5) + 0.1).requires_grad_(given)
        results = run(x)
        inputs.append(x)
        seen += [*results, sharing([x, *results]), [r.requires_grad for r in results]]
        parts = [results[i] for i in used if results[i].requires_grad]
        losses.append(sum((p.square() if squared else p * torch.rand(p.shape)).sum() for p in parts) if parts else None)
    for loss in reversed(losses) if backwards else losses:
        if loss is not None:
            loss.backward()
            having = [p for p in model.parameters() if p.grad is not None]
            nn.utils.clip_grad_norm_(having, 0.5, error_if_nonfinite=False) if having else None
            seen += [p.grad.clone() if p.grad is not None else None for p in model.parameters()]
    grads = [t.grad for t in (*model.parameters(), *inputs)]
    return [*seen, *grads, sharing([g for g in grads if g is not None])]


def sharing(tensors: list[torch.Tensor]) -> list[int]:
    places = [t.untyped_storage().data_ptr() for t in tensors]
    return [places.index(place) for place in places]


def check_seed(seed: int) -> None:
    ours, theirs = observed(seed, dynascope.compile), observed(seed, lambda model: model)
    assert len(ours) == len(theirs)
    for place, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(b, torch.Tensor) or not isinstance(a, torch.Tensor):
            assert a == b, f"{place}: {a}, eager {b}"
            continue
        assert a.stride() == b.stride(), f"{place}: strides {a.stride()}, eager {b.stride()}"
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True, msg=lambda m, at=place: f"{at}: {m}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    options = parser.parse_args()
    failed = []
    for seed in range(options.first, options.first + options.count):
        try:
            check_seed(seed)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
    print(f"{options.count - len(failed)} passed, {len(failed)} failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
