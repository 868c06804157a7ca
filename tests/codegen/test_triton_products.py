"""Kernels that multiply matrices themselves give what the product and the kernel after it give, in Triton's interpreter."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "loops"))

import pytest
import torch
import torch.nn.functional as F

from triton_interpreter import launchers_for  # isort: skip
from dynascope.codegen.target import DeviceModel
from dynascope.loops.lower import lower
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup, Tiling
from dynascope.schedule.in_place import written_in_place
from dynascope.schedule.overwriting import overwriting
from dynascope.schedule.products import candidates, with_products
from dynascope.schedule.verifying import verify_schedule
from recording import record
from triton_executor import Executor


def half(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(torch.float16)


def activation(x, w, b):
    return F.gelu(torch.addmm(b, x, w), approximate="tanh")


def flat(x, w):
    return torch.relu(x @ w)


def of_rows_in_batches(x, w, b, residual):
    return F.linear(x, w, b) * 0.5 + residual


def to_heads(x, w):
    return F.linear(x, w).view(4, 5, 3, 8).transpose(1, 2).contiguous() + 1


def gated(x, w, v):
    return F.silu(x @ w) * (x @ v)


def masked(x, w, kept):
    return torch.where(kept, (x @ w).float(), -1.0)


PROGRAMS = {
    "activation": (activation, [half(20, 24), half(24, 40), half(40)]),
    "flat": (flat, [half(33, 16), half(16, 17)]),
    "one row": (activation, [half(1, 16), half(16, 40), half(40)]),
    "batches, residual": (of_rows_in_batches, [half(2, 9, 20), half(24, 20), half(24), half(2, 9, 24)]),
    "heads": (to_heads, [half(20, 16), half(24, 16)]),
    "gated": (gated, [half(18, 16), half(16, 24), half(16, 24)]),
    "masked": (masked, [half(18, 16), half(16, 24), torch.arange(24) % 3 > 0]),
    "turned": (flat, [half(16, 20).t(), half(32, 16).t()]),
    "part": (flat, [half(20, 40)[:, 8:24], half(16, 50)[:, ::2]]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("tiling", [Tiling(16, 16, 16, 4, 1), Tiling(32, 16, 32, 4, 2)], ids=str)
def test_the_product_is_part_of_the_kernel(name: str, tiling: Tiling) -> None:
    function, inputs = PROGRAMS[name]
    schedule = fuse(lower(record(function, list(inputs)), list(inputs)))
    found = [
        replace(each, group=replace(each.group, product=replace(each.group.product, tiling=tiling)))
        for each in candidates(schedule, "cpu")
    ]
    assert len(found) == 1
    multiplied = with_products(schedule, found)
    verify_schedule(multiplied)
    assert len(multiplied.steps) == len(schedule.steps) - 1
    (result,) = Executor(multiplied, launchers_for, DeviceModel(multiprocessors=2))(*inputs)
    wanted = function(*(each.double() if each.is_floating_point() else each for each in inputs))
    torch.testing.assert_close(result.double(), wanted.double(), rtol=3e-3, atol=3e-3)


def test_operands_are_not_written_over() -> None:
    """Of one size, and read by nobody afterwards: other programs still multiply them."""
    inputs = [half(16, 16), half(16, 16), half(16, 16)]
    chained = fuse(lower(record(lambda x, w, v: torch.relu(x @ w @ v) @ v, inputs), inputs))
    assert any(step.writes == step.reads for step in overwriting(chained).steps if isinstance(step, FusionGroup))
    (only,) = candidates(chained, "cpu")
    multiplied = overwriting(with_products(chained, [only]))
    (kernel,) = (step for step in multiplied.steps if isinstance(step, FusionGroup))
    assert {view.buffer for view in kernel.product.operands}.isdisjoint(kernel.writes)


def test_an_operand_that_took_over_another_ones_memory() -> None:
    """The layer before keeps the library's product, which its kernel writes over: the operand goes by that name then."""
    inputs = [half(16, 16), half(16, 24), half(24, 40)]
    program = lambda x, w, v: torch.relu(torch.relu(x @ w) @ v)  # noqa: E731
    schedule = fuse(lower(record(program, inputs), inputs))
    multiplied = overwriting(with_products(schedule, candidates(schedule, "cpu")[-1:]))
    verify_schedule(multiplied)
    (result,) = Executor(multiplied, launchers_for, DeviceModel(multiprocessors=2))(*inputs)
    torch.testing.assert_close(result.double(), program(*(each.double() for each in inputs)), rtol=3e-3, atol=3e-3)


def returned(x, w):
    product = x @ w
    return torch.relu(product), product


def summed(x, w):
    return (x @ w).float().sum(0)


def of_floats(x, w):
    return torch.relu(x.float() @ w.float())


@pytest.mark.parametrize("function", [returned, summed, of_floats], ids=lambda function: function.__name__)
def test_what_others_read_or_sum_up_stays_a_library_call(function) -> None:
    inputs = [half(20, 16), half(16, 32)]
    schedule = fuse(lower(record(function, inputs), inputs))
    assert any(isinstance(step, FusionGroup) for step in schedule.steps) and candidates(schedule, "cpu") == []


def test_an_operand_that_the_kernel_writes_to() -> None:
    inputs = [half(20, 16), half(16, 16)]
    schedule = written_in_place(fuse(lower(record(lambda x, w: torch.relu(x @ w), inputs), inputs)), ((0, 0),))
    (kernel,) = (step for step in schedule.steps if isinstance(step, FusionGroup))
    assert kernel.writes == (schedule.program.inputs[0].name,) and candidates(schedule, "cpu") == []
