"""Compiles a function through lower, fuse, emit and build, and compares it with eager."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import torch
from dynascope.codegen.kernels import Kernel, KernelModule
from dynascope.codegen.module import emit, runnable_of
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.runtime.machine import this_machine
from dynascope.schedule.fusion import fuse
from recording import record


def compiled(function: Any, inputs: list[Any]) -> tuple[KernelModule, Any]:
    module = emit(fuse(lower(record(function, inputs))), this_machine())
    return module, build(runnable_of(module)).call


def kernels(module: KernelModule) -> list[Kernel]:
    return [k for k in module.kernels if k is not None]


def check(function: Any, *inputs: Any, tolerance: float | None = None) -> KernelModule:
    """Same values, dtypes, sizes and strides as eager."""
    module, call = compiled(function, list(inputs))
    with torch.no_grad():
        expected = function(*inputs)
        actual = call(*inputs)
    expected = expected if isinstance(expected, (list, tuple)) else (expected,)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        options = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(a, e, equal_nan=True, check_stride=e.numel() > 1, **options)
    return module
