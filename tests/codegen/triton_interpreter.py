"""Triton kernels on the CPU: Triton's own interpreter, with libdevice's functions from torch.

Import this before anything imports triton. Where there is a GPU, a process that interprets cannot build for it any more, so
these tests are skipped there unless the process was started to interpret (`TRITON_INTERPRET=1 pytest tests/codegen`).
"""

from __future__ import annotations

import dataclasses
import os

import pytest
import torch

if torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("this process builds kernels for its GPU; start one with TRITON_INTERPRET=1", allow_module_level=True)
os.environ["TRITON_INTERPRET"] = "1"

import numpy  # noqa: E402

triton = pytest.importorskip("triton", reason="Triton is not installed")
if not triton.knobs.runtime.interpret:
    pytest.skip("triton was imported without its interpreter", allow_module_level=True)

import triton.language as tl  # noqa: E402
from dynascope.runtime.cubins import load_text  # noqa: E402
from dynascope.runtime.cuda_launch import grid_at  # noqa: E402
from triton.runtime import interpreter  # noqa: E402
from triton.runtime.interpreter import TensorHandle, interpreter_builder  # noqa: E402

interpreter_builder.options = dataclasses.replace(interpreter_builder.options, debug=True)  # assertions are part of a kernel



def _fused(self, a, b, c):
    """One rounding, as on a device: what the interpreter computes has two. A product of two f32 is exact in f64."""
    wide = a.data.astype(numpy.float64) * b.data.astype(numpy.float64) + c.data.astype(numpy.float64)
    return TensorHandle(wide.astype(c.data.dtype), c.dtype)


interpreter.InterpreterBuilder.create_fma = _fused

def _spread(self, result, number):
    """A mask stays one: Triton 3.9 makes 32-bit integers of a scalar's."""
    shape = getattr(result, "shape", result)  # older ones are given the shape
    kind = result if hasattr(result, "scalar") else number.dtype
    return TensorHandle(numpy.full(shape, number.data.item(), dtype=number.data.dtype), getattr(kind, "scalar", kind))


interpreter.InterpreterBuilder.create_splat = _spread

_patch_tensor = interpreter._patch_lang_tensor


def _patch_tensor_with_index(tensor, scope):
    """A scalar of the interpreter is an array of one element, of which NumPy 2.5 makes no int by itself."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())


interpreter._patch_lang_tensor = _patch_tensor_with_index

FUNCTIONS = {
    "rint": torch.round, "pow": torch.pow, "fmod": torch.fmod, "atan2": torch.atan2, "copysign": torch.copysign,
    "hypot": torch.hypot, "nextafter": torch.nextafter, "rsqrt": torch.rsqrt,
}  # fmt: skip
for _name in [
    "floor",
    "ceil",
    "trunc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "erf",
    "erfc",
    "sin",
    "cos",
    "tan",
]:
    FUNCTIONS[_name] = getattr(torch, _name)
for _name in ["asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma"]:
    FUNCTIONS[_name] = getattr(torch, _name)


class Libdevice:
    """Each function by torch's of the same meaning."""

    def __getattr__(self, name):
        function = FUNCTIONS[name]

        def call(*arguments):
            blocks = [torch.from_numpy(numpy.ascontiguousarray(a.handle.data)) for a in arguments]
            result = function(*torch.broadcast_tensors(*blocks)).numpy()
            like = max(arguments, key=lambda a: a.handle.data.size)
            return tl.core.tensor(TensorHandle(result.reshape(like.handle.data.shape), like.handle.dtype), like.type)

        return call


def launchers_for(kernels, slots):
    return [_launcher(kernel, names) for kernel, names in zip(kernels, slots, strict=True)]


def _given(value, parameter):
    """A float as on a device: one of the kernel's numbers, where the interpreter would hand on Python's."""
    if not isinstance(value, float):
        return value
    kind = getattr(tl, {"fp64": "float64", "fp32": "float32"}[parameter.kind])
    return tl.core.tensor(TensorHandle(numpy.array([value], dtype=str(kind).replace("fp", "float")), kind), kind)


def _launcher(kernel, names):
    function = load_text(kernel)
    function.fn.__globals__["libdevice"] = Libdevice()

    def launch(*arguments):
        values = dict(zip(names, arguments, strict=True))
        if kernel.workspace_bytes:
            values[None] = torch.zeros(kernel.workspace_bytes, dtype=torch.uint8)
        function[grid_at(kernel, values)](*(_given(values[p.source], p) for p in kernel.parameters))
        if kernel.workspace_bytes:
            assert not values[None][:4096].any(), "the tickets were not set back"

    return launch
