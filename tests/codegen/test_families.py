"""Kernels that differ in sizes alone are one text, to which each step passes its numbers; and every number that may be passed can be."""

from __future__ import annotations

import pathlib
import sys
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from dynascope.codegen.cpp import families
from dynascope.codegen.module import emit, runnable_of
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.runtime.machine import this_machine
from dynascope.schedule.fusion import fuse
from recording import record
from torch.nn import functional


def module(function, *inputs):
    return emit(fuse(lower(record(function, list(inputs)))), this_machine())


def kernels(made):
    return [kernel for kernel in made.kernels if kernel is not None]


def blocks(*images):
    return [functional.relu((x - x.mean((0, 2, 3), keepdim=True)) * 2) for x in images]


IMAGES = [torch.randn(2, channels, size, size) for channels, size in ((32, 16), (48, 16), (64, 8), (80, 8), (96, 8))]


@pytest.mark.compiler
def test_one_text_serves_several_sizes() -> None:
    few, many = module(blocks, *IMAGES[:1]), module(blocks, *IMAGES)
    assert len(few.distinct) == 1 and len(many.distinct) == 2 < len(kernels(many))  # 256 and 64 elements
    for ours, eagers in zip(build(runnable_of(many)).call(*IMAGES), blocks(*IMAGES), strict=True):
        torch.testing.assert_close(ours, eagers)


@pytest.mark.compiler
def test_the_bits_are_those_of_kernels_apart(monkeypatch) -> None:
    def f(*images):
        made = [functional.gelu(functional.layer_norm(x, x.shape[2:])).mean((2, 3)) for x in images]
        return [*made, *(row.softmax(-1) / row.std(-1, keepdim=True) for row in made)]

    merged = module(f, *IMAGES)
    monkeypatch.setattr(families, "FEWEST", 1000)
    apart = module(f, *IMAGES)
    assert len(merged.distinct) < len(apart.distinct)
    results = [build(runnable_of(each)).call(*IMAGES) for each in (merged, apart)]
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_the_wrapper_passes_the_numbers_of_each_step() -> None:
    made = module(lambda *inputs: [x + 1 for x in inputs], *(torch.randn(length) for length in (64, 96, 128)))
    (kernel,) = made.distinct
    given = [each.given for each in kernels(made)]
    assert [numbers[0] for numbers in given] == [64, 96, 128] and len({each.items for each in kernels(made)}) == 3
    for each in kernels(made):
        assert f"{kernel.name}({', '.join((*each.buffers, *map(repr, each.given)))})" in made.wrapper
    assert "(the first of 3 sizes)" in kernel.text.splitlines()[0]


def test_a_kernel_alone_keeps_its_numbers() -> None:
    made = module(lambda x, y: (x + 1, y.sin()), torch.randn(64), torch.randn(96))
    assert all(not kernel.given and not kernel.share for kernel in kernels(made))


def test_what_the_compiler_makes_use_of_keeps_kernels_apart() -> None:
    cases = {
        "short loops": (lambda x, y: (x.sum(1), y.sum(1)), torch.randn(64, 3, 64), torch.randn(64, 5, 64)),
        "what is computed": (lambda x, y: (x.sin(), y.cos()), torch.randn(64), torch.randn(96)),
        "which operand": (lambda x, y: (x - x[:, :1], y[:, :1] - y), torch.randn(64, 64), torch.randn(96, 96)),
        "types": (lambda x, y: (x + 1, y + 1), torch.randn(64), torch.randn(96, dtype=torch.float64)),
    }
    for name, (function, *inputs) in cases.items():
        made = module(function, *inputs)
        assert len(made.distinct) == len(kernels(made)) > 1, name


def test_a_number_of_elements_is_no_factor_of_the_same_value() -> None:
    """576 and 576.0 are equal in Python: a loop that ended at a float took three times as long."""
    made = module(lambda x, y: (x.mean(-1), y.mean(-1)), torch.randn(64, 576), torch.randn(64, 640))
    (kernel,) = made.distinct
    ends = [line for line in kernel.text.splitlines() if "for (" in line and "given" in line]
    whole = {number for number in ("given0", "given1", "given2") if f"const i64 {number} " in kernel.text}
    assert ends and all(any(number in line for number in whole) for line in ends)


def chained(x, w, b):
    y = functional.gelu(functional.layer_norm(x, (x.shape[-1],), w, b))
    z = torch.cat((y, x * 3), 1).transpose(1, 2).contiguous()
    s = z.softmax(1) + z.cumsum(1) * 0.01 + z.roll(1, 0) + z.flip(2)
    p = functional.max_pool2d(functional.pad(s[:, None], (1, 2, 3, 0)), 2)
    t = x.transpose(1, 2)
    return y.var(1), s.amax(2), z.argmax(1), p, torch.where(s > 0, s, s.mean()), t + 1, (t @ x).sum(0), x.bool().any(1), x.int() // 37


@pytest.mark.compiler
def test_every_number_may_be_given(monkeypatch) -> None:
    inputs = torch.randn(6, 33, 70), torch.randn(70), torch.randn(70)
    monkeypatch.setattr(families, "FEWEST", 1)
    monkeypatch.setattr(families, "differs", lambda row: True)
    made = module(chained, *inputs)
    assert sum(len(kernel.given) - 2 for kernel in made.distinct) > 50
    for ours, eagers in zip(build(runnable_of(made)).call(*inputs), chained(*inputs), strict=True):
        torch.testing.assert_close(ours, eagers, rtol=1e-5, atol=1e-5)


def test_words_that_would_be_told_as_one_keep_a_kernel_apart() -> None:
    (kernel,) = module(lambda x: x + 1, torch.randn(64)).distinct
    assert families.pattern_of(kernel).key[0] != kernel.name
    doubled = replace(kernel, text=kernel.text.replace("end)", "end, f32 x_9, f32 the_x_9)"))
    assert families.pattern_of(doubled).key[0] == kernel.name
