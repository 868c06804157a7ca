"""What counts for a Triton kernel's machine code is its text up to names: kernels of other programs and other lines are found."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "codegen"))

import pytest
import torch
import triton_groups as groups
from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.emit import emit_triton
from dynascope.codegen.triton.kernel import Parameter, TritonKernel
from dynascope.runtime.cubins import without_names


def scaled(name: str, given: str, made: str, line: int = 1, factor: float = 2.0) -> TritonKernel:
    writer = groups.GroupWriter(name, rows=(64,), columns=(1000,))
    writer.line = line
    x = writer.load(given, torch.float32, writer.index(1000, 1))
    top = writer.reduce("max", x)
    two = writer.constant(factor, torch.float32)
    out = writer.compute("multiply", writer.compute("subtract", x, top), two)
    writer.store(made, torch.float32, out, writer.index(1000, 1))
    return emit_triton(*writer.finish(), DeviceModel())


def test_names_and_lines_do_not_count():
    one, other = scaled("softmax", "x", "out"), scaled("my_layer_4", "hidden", "larger_one", line=77)
    assert one.text != other.text
    assert without_names(one) == without_names(other)


def test_numbers_do():
    assert without_names(scaled("f", "x", "y")) != without_names(scaled("f", "x", "y", factor=3.0))


def written(body: str, *parameters: str) -> TritonKernel:
    text = f"import triton\n\n@triton.jit\ndef f({', '.join(parameters)}):\n    {body}\n"
    return TritonKernel("f", text, tuple(Parameter(p, "*fp32", p) for p in parameters), (1, 1, 1), 4)


PAIRS = {
    "a function of the same name": ("exp = tl.exp(x)", "sin = tl.sin(x)"),
    "a keyword of the same name": ("mask = tl.load(x, mask=x)", "other = tl.load(x, other=x)"),
    "two for one": ("a = x + y", "a = x + x"),
    "a name that numbers have": ("a = v0 + x", "a = a + x"),
    "which of them is read": ("a = x; b = y; c = a", "a = x; b = y; c = b"),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_no_two_meanings_have_one_text(pair):
    one, other = (written(body, "x", "y") for body in PAIRS[pair])
    assert without_names(one) != without_names(other)


def test_comments_do_not_count():
    kernel = scaled("softmax", "x", "out")
    commented = replace(kernel, text=kernel.text.replace("\n    program", "\n    # model.py:9: y = f(x)\n    program", 1))
    assert without_names(commented) == without_names(kernel)
