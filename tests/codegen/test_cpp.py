"""The text of C++ kernels."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from dynascope.codegen.cpp.emitter import emit_kernel
from dynascope.codegen.cpp.names import identifier
from dynascope.codegen.cpp.unit import FLAGS, unit
from dynascope.codegen.module import emit
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup
from recording import record
from torch.nn import functional


def module(function, *inputs):
    return emit(fuse(lower(record(function, list(inputs)))))


def many(x, w):
    total = x.sum(1)
    return [
        functional.gelu(x + w),
        x.softmax(-1),
        (x > 0).all(0),
        x.bfloat16() * 2,
        x.double().exp(),
        total,
        x.argmax(1),
        x.t() + 1,
    ]


INPUTS = (torch.randn(16, 32), torch.randn(32))


def test_text_is_deterministic() -> None:
    assert module(many, *INPUTS).source == module(many, *INPUTS).source


def test_the_users_lines_and_names_are_in_the_text() -> None:
    def f(hidden, scale):
        return (hidden * scale).softmax(-1)

    text = module(f, *INPUTS).kernels[0].text
    assert "// test_cpp.py:" in text and "return (hidden * scale).softmax(-1)" in text
    assert "reads hidden: f32[16, 32]" in text and "bytes read" in text


def test_expensive_values_are_kept_for_the_next_pass() -> None:
    text = module(lambda x: x.softmax(-1), INPUTS[0]).kernels[0].text
    assert text.count("exp_(") == 1 and "kept_" in text


def test_links_lead_to_lines_of_the_text() -> None:
    result = module(many, *INPUTS)
    lines = result.source.splitlines()
    assert result.links and all(1 <= link.line <= len(lines) and link.span.file == __file__ for link in result.links)


@pytest.mark.compiler
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("width", [16, 32, 64])
def test_builds_for_every_width(compiler: str, width: int, tmp_path: pathlib.Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    plan = fuse(lower(record(many, list(INPUTS))))
    kernels = [
        emit_kernel(s, f"k{n}", plan.buffers, width) for n, s in enumerate(plan.steps) if isinstance(s, FusionGroup)
    ]
    source = tmp_path / "unit.cpp"
    source.write_text(unit(kernels, "widths")[0])
    flags = [f if f != "-march=native" else "-march=x86-64-v3" for f in FLAGS]
    subprocess.run([compiler, *flags, "-o", str(tmp_path / "unit.so"), str(source)], check=True)


@pytest.mark.parametrize("name", ["tanh", "tanh_", "exp", "load", "n", "kept_1", "r0", "F32", "float", "unix", "hidden"])
def test_no_buffer_hides_a_name_of_the_units(name: str) -> None:
    assert (identifier(name) == name) == (name == "hidden")
    assert identifier(identifier(name)) == identifier(name)


@pytest.mark.compiler
def test_values_named_like_functions_build() -> None:
    """fx calls the result of a tanh `tanh`: as a buffer it must not hide the function."""

    def f(tanh, exp):
        return torch.tanh(tanh) @ torch.exp(exp).sigmoid(), torch.erf(tanh)

    inputs = (torch.randn(8, 8), torch.randn(8, 8))
    built = build(module(f, *inputs))
    assert not built.notes
    torch.testing.assert_close(built.call(*inputs), f(*inputs))
