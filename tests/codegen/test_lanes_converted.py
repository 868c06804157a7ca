"""Lanes of one type as another: every value as eager's, and as vectors where the types lie further apart than gcc steps."""

from __future__ import annotations

import subprocess

import dynascope
import pytest
import torch
from dynascope.codegen.cpp.flags import FLAGS
from dynascope.codegen.cpp.prelude import prelude
from dynascope.native.toolchain import find_compiler

pytestmark = pytest.mark.compiler

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)
FLOATS = (torch.float32, torch.float64, torch.bfloat16)
NAMES = {"i8": "I8", "u8": "U8", "i16": "I16", "i32": "I32", "i64": "I64", "f32": "F32", "f64": "F64"}
APART = [("i8", "f32"), ("u8", "f32"), ("i8", "f64"), ("i16", "f64"), ("u8", "i64"), ("i8", "i32"), ("i16", "i64")]
LANES = 16
MOST_INSTRUCTIONS = 40
"""Of a conversion of 16 lanes, one by one it takes 47 to 64."""


@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_every_value_of_integers_in_other_types(source):
    everything = torch.arange(-70000, 70000)
    x = torch.cat([everything, torch.tensor([2**31 - 1, -(2**31)])]).to(source)

    def converted(x):
        return tuple((x.to(target) == x.to(target)) if target == source else x.to(target) for target in (*INTEGERS, *FLOATS))

    for given in (x, x[:13], x[: 13 * 7].view(7, 13).t()):
        for ours, eagers in zip(dynascope.compile(converted)(given), converted(given), strict=True):
            assert ours.dtype == eagers.dtype and torch.equal(ours, eagers)


@pytest.mark.parametrize("source, target", APART)
def test_types_further_apart_are_converted_as_vectors(source, target, tmp_path):
    given, wanted = NAMES[source], NAMES[target]
    body = f'using namespace v{LANES}; extern "C" {wanted} converted({given}* x) {{ return TO({wanted}, *x); }}'
    text, assembly = tmp_path / "converted.cpp", tmp_path / "converted.s"
    text.write_text(prelude((LANES,), body) + "\n" + body)
    compiler = find_compiler("c++")
    flags = [flag for flag in FLAGS if flag not in ("-shared", "-lm", "-lgcc", "-nostdlib")]
    subprocess.run([*compiler.command, *flags, "-S", "-o", assembly, text], check=True, capture_output=True)
    lines = [line for line in assembly.read_text().splitlines() if line.startswith("\t") and not line.strip().startswith(".")]
    assert 0 < len(lines) < MOST_INSTRUCTIONS
