"""Batch normalisation with everything that may be left out: results, what it writes, gradients and their layouts are eager's."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from compare import check

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
