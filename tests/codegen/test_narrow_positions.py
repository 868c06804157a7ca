"""Integers that a kernel computes of positions have 32 bits where what they may come to is known to fit, and 64 elsewhere."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "loops"))

import pytest
import torch
import torch.nn.functional as F
from dynascope.codegen.triton.emit import emit_triton
from dynascope.loops.lower import lower
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup
from recording import record


def texts(function, *inputs):
    schedule = fuse(lower(record(function, list(inputs))))
    return [emit_triton(step, schedule.buffers).text for step in schedule.steps if isinstance(step, FusionGroup)]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_places_between_pixels(mode):
    made = texts(lambda x: F.interpolate(x, scale_factor=2.0, mode=mode) + 1, torch.randn(2, 3, 16, 16))
    assert made and not any("int64" in text for text in made)


def test_what_the_program_keeps_is_as_wide_as_it_says():
    (text,) = texts(lambda x: x[:, None] + torch.arange(8), torch.zeros(8, dtype=torch.int64))
    assert "int64" in text


def test_what_may_not_fit_stays_wide():
    def function(x):
        far = (torch.arange(1000) * 5_000_000).float() * 3.0
        return x[(far / 1e9).long() % 7] * 2

    assert any("int64" in text for text in texts(function, torch.randn(7)))


def test_a_float_that_is_loaded_says_no_bounds():
    (text,) = texts(lambda x, y: y[x.long().clamp(0, 3)] + 1, torch.rand(50), torch.rand(4))
    assert "to(tl.int64)" in text


def test_how_much_of_a_window_lies_inside_is_a_product_of_positions():
    (text,) = texts(lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), torch.randn(2, 3, 16, 16))
    assert "int64" not in text


def test_a_product_that_may_not_fit_stays_wide():
    (text,) = texts(lambda x: (torch.arange(70_000) * torch.arange(70_000)).float() * x, torch.randn(70_000))
    assert "int64" in text
