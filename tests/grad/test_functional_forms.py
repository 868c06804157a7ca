"""In-place operators and `out=`: each has a functional form with which its graph gets kernels."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.grad.operators import traits

aten = torch.ops.aten
LEFT = {"_slow_conv2d_backward", "adaptive_avg_pool3d_backward", "fbgemm_linear_fp16_weight"}
LEFT |= {"fbgemm_linear_fp16_weight_fp32_activation"}
"""Whose form without `out` is another operator, or has none."""


def filled(make, *sizes, dtype=None):
    out = torch.empty(sizes, dtype=dtype)
    make(out=out)
    return out


PROGRAMS = {
    "mask": lambda x: (m := x > 0, m.__iand__(x < 2), m.__ior__(x > 3), m.__ixor__(x > 1), m)[4],
    "bits": lambda x: (i := x.long() * 4, i.__ilshift__(1), i.__irshift__(2), i.__iand__(6), i.__ior__(x.long()), i)[5],
    "eye": lambda x: filled(lambda out: torch.eye(3, out=out), 3, 3, dtype=torch.float64) + x[0, 0],
    "full": lambda x: filled(lambda out: torch.full((3, 4), 2, out=out), 3, 4) + x,
    "ones": lambda x: filled(lambda out: torch.ones(4, out=out), 4) + x,
    "linspace": lambda x: filled(lambda out: torch.linspace(0, 1, 4, out=out), 4, dtype=torch.float64) + x,
    "arange": lambda x: filled(lambda out: torch.arange(4, out=out), 4) + x,
    "a part": lambda x: (y := x.detach() * 2, torch.zeros(4, out=y[1]), y)[2],
    "polygamma": lambda x: (x + 1).polygamma_(1) + 1,
    "rrelu": lambda x: torch.nn.functional.rrelu(x - 2, training=True, inplace=True) * 2,
    "random": lambda x: filled(lambda out: torch.rand(3, 4, out=out), 3, 4, dtype=torch.float64) + x,
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_gets_kernels(name, requires_grad):
    program = PROGRAMS[name]
    sides = []
    for function in (program, dynascope.compile(program, fullgraph=True)):
        torch.manual_seed(0)
        x = torch.arange(12.0).view(3, 4).requires_grad_(requires_grad)
        result = function(x)
        if result.requires_grad:
            result.sum().backward()
        sides.append((result, x.grad))
    torch.testing.assert_close(sides[1], sides[0])


def test_all_that_write_to_out_have_one():
    """But for a few that programs do not call."""
    found = set()
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        if full.startswith("aten::") and "out" in overload.split("_"):
            operator = getattr(getattr(aten, name), overload)
            if traits(operator).kind == "mutating" and traits(operator).functional is None:
                found.add(name)
    assert found <= LEFT
