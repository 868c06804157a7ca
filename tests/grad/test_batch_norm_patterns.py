"""Batch normalisation with everything that may be left out: results, what it writes, gradients and their layouts are eager's."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from compare import check
from dynascope.grad.decompose import table_for
from dynascope.grad.options import GradOptions
from dynascope.grad.record import Recorder
from dynascope.grad.tape import layout_of

aten = torch.ops.aten

SIZES = {"one value": (2, 1), "rows": (4, 3), "series": (2, 3, 5), "images": (2, 3, 2, 4), "volumes": (2, 2, 3, 2, 3)}


@pytest.mark.parametrize("training", [True, False], ids=["training", "as it is"])
@pytest.mark.parametrize("name", SIZES)
def test_patterns(name, training):
    sizes = SIZES[name]
    for has_scale, has_shift, runs, is_last in itertools.product((0, 1), (0, 1), (0, 1), (0, 1)):
        momentum = (0.1, 1.0)[has_scale ^ is_last]
        if not (runs or training):
            continue
        generator = torch.Generator().manual_seed(len(sizes))
        x = torch.randn(sizes, generator=generator, dtype=torch.float64)
        x = x.transpose(1, -1).contiguous().transpose(1, -1) if is_last else x
        given = [torch.randn(sizes[1], generator=generator, dtype=torch.float64).abs() + 0.1 for _ in range(4)]
        scale, shift = (each.requires_grad_() for each in given[2:])

        def program(x, mean, variance, scale, shift):
            statistics = (mean, variance) if runs else (None, None)  # noqa: B023
            out = F.batch_norm(x, *statistics, scale if has_scale else None, shift if has_shift else None, training, momentum, 1e-3)  # noqa: B023
            return out.sin(), (out * mean[:, None].sum()).sum()

        check(program, [x.requires_grad_(), given[0], given[1], scale, shift], tolerance=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_is_saved_on_a_gpu_outside_training(dtype):
    """What it normalised with, the mean as a copy; it was taken for memory that nobody writes. Recorded alone: no GPU is needed."""
    gpu = torch.device("cuda")
    with Recorder(table_for(GradOptions()), gpu) as recorder:
        x, mean, variance = (
            recorder.placeholder(layout_of(torch.empty(sizes, dtype=dtype, device="meta"), gpu), 0, "x")[1]
            for sizes in ((2, 3, 4), (3,), (3,))
        )
        _, *saved = map(recorder.value, torch.native_batch_norm(x, None, None, mean, variance, False, 0.1, 1e-5))
    assert [(each.sizes, each.dtype) for each in saved] == [((3,), torch.float32)] * 2
    assert [each.step.target for each in saved] == [aten.clone.default, aten.rsqrt.default]
    copied = saved[0].step.arguments[0]
    assert copied is recorder.value(mean) if dtype is torch.float32 else copied.step.arguments[0] is recorder.value(mean)
