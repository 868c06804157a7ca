"""Small random programs of pointwise operations, views, in-place writes and reductions, against eager."""

from __future__ import annotations

from collections.abc import Callable

import torch
from compare import check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
OPERATIONS: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sin": lambda a, b: a.sin(),
    "tanh": lambda a, b: a.tanh(),
    "relu": lambda a, b: a.relu(),
    "transposed": lambda a, b: a.t().contiguous().t(),
    "viewed": lambda a, b: a.reshape(-1).view(4, 4),
    "row": lambda a, b: a[1].expand(4, 4),
    "mean": lambda a, b: a.mean(0, keepdim=True) + b,
    "softmax": lambda a, b: a.softmax(-1),
    "matmul": lambda a, b: a @ b,
    "detach": lambda a, b: a.detach() + b,
    "where": lambda a, b: torch.where(a > 0, a, b),
    "write row": lambda a, b: _written(a, lambda c: c[0].mul_(2)),
    "write block": lambda a, b: _written(a, lambda c: c[1:3, ::2].copy_(b[:2, :2])),
    "write transposed": lambda a, b: _written(a, lambda c: c.t()[2].add_(b[0])),
    "write flat": lambda a, b: _written(a, lambda c: c.view(-1)[3:7].zero_()),
}


def _written(a: torch.Tensor, write: Callable[[torch.Tensor], object]) -> torch.Tensor:
    copy = (a * 1).contiguous()
    write(copy)
    return copy


steps = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps, st.integers(1, 3))
def test_random_program(steps, output_count):
    def program(x, y):
        values = [x, y]
        for name, left, right in steps:
            values.append(OPERATIONS[name](values[left % len(values)], values[right % len(values)]))
        return tuple(values[-output_count:])

    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(4, 4, generator=generator).requires_grad_(), torch.randn(4, 4, generator=generator)]
    check(program, inputs, tolerance=1e-4, layouts="outputs")
