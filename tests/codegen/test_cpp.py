"""The text of C++ kernels."""

from __future__ import annotations

import functools
import math
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import mpmath
import pytest
import torch
from dynascope.codegen.cpp.emitter import emit_kernel
from dynascope.codegen.cpp.flags import FLAGS
from dynascope.codegen.cpp.names import identifier
from dynascope.codegen.cpp.unit import KERNELS_IN_A_UNIT, unit
from dynascope.codegen.module import emit, runnable_of
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.runtime.machine import this_machine
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup
from recording import record
from torch.nn import functional


def module(function, *inputs):
    return emit(fuse(lower(record(function, list(inputs)))), this_machine())


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
    for kernel in module(many, *INPUTS).distinct:
        lines = kernel.text.splitlines()
        assert kernel.links and all(1 <= link.line <= len(lines) and link.span.file == __file__ for link in kernel.links)


@pytest.mark.compiler
def test_many_kernels_are_built_in_units_side_by_side() -> None:
    def f(*inputs):
        return [functools.reduce(lambda y, _: y.sin(), range(number), x * 2) for number, x in enumerate(inputs)]

    inputs = torch.randn(2 * KERNELS_IN_A_UNIT + 2, 40).unbind()
    result = module(f, *inputs)
    assert len(result.units) == 3 and len(result.distinct) == len(inputs)
    assert sorted(name for one in result.units for name in one.kernels) == sorted(k.name for k in result.distinct)
    for ours, eagers in zip(build(runnable_of(result)).call(*inputs), f(*inputs), strict=True):
        torch.testing.assert_close(ours, eagers)


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
    source.write_text(unit(kernels, "widths"))
    flags = [f if f != "-march=native" else "-march=x86-64-v3" for f in FLAGS]
    subprocess.run([compiler, *flags, "-o", str(tmp_path / "unit.so"), str(source)], check=True)


@pytest.mark.parametrize(
    "name", ["tanh", "tanh_", "exp", "load", "n", "kept_1", "r0", "F32", "float", "unix", "hidden"]
)
def test_no_buffer_hides_a_name_of_the_units(name: str) -> None:
    assert (identifier(name) == name) == (name == "hidden")
    assert identifier(identifier(name)) == identifier(name)


@pytest.mark.compiler
def test_values_named_like_functions_build() -> None:
    """fx calls the result of a tanh `tanh`: as a buffer it must not hide the function."""

    def f(tanh, exp):
        return torch.tanh(tanh) @ torch.exp(exp).sigmoid(), torch.erf(tanh)

    inputs = (torch.randn(8, 8), torch.randn(8, 8))
    built = build(runnable_of(module(f, *inputs)))
    assert not built.notes
    torch.testing.assert_close(built.call(*inputs), f(*inputs))


def _distance(value: torch.Tensor, exact: torch.Tensor) -> float:
    """The greatest distance in units in the last place of f32; inf where a special value is another."""
    if not torch.equal(value.isnan(), exact.isnan()):
        return float("inf")
    reference = exact.float()
    finite = reference.isfinite()
    if not torch.equal(value[~finite].nan_to_num(), reference[~finite].nan_to_num()):
        return float("inf")
    x = reference[finite].abs()
    unit = torch.nextafter(x, torch.full_like(x, float("inf"))).double() - x.double()
    return ((value[finite].double() - exact[finite]).abs() / unit).max().item()


LIMITS = {
    **{"erf": 1.1, "exp": 1.0, "log": 1.0, "tanh": 1.5, "sin": 0.8, "cos": 0.8, "exp2": 0.9, "log2": 0.95, "log10": 0.95, "log1p": 0.9},
    **dict.fromkeys(["expm1", "tan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc"], 0.6),
    **{"asin": 2.3, "acos": 1.2, "atan": 1.2},
}
"""Units in the last place."""


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "limit"), LIMITS.items())
def test_mathematics_are_accurate_over_all_floats(name: str, limit: float) -> None:
    function = getattr(torch, name)
    bits = torch.arange(-(2**31), 2**31, 4099, dtype=torch.int64).to(torch.int32)
    special = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), 1e-45, -1e-45])
    x = torch.cat([bits.view(torch.float32), special])
    (y,) = build(runnable_of(module(lambda x: function(x), x))).call(x)
    exact = function(x.double())
    normal = exact.isnan() | (exact.abs() > 1.2e-38) | (exact == 0)
    assert _distance(y[normal], exact[normal]) <= limit
    zeros, eagers = y[-6:-4], function(x)[-6:-4]
    assert torch.equal(zeros.signbit() & ~zeros.isnan(), eagers.signbit() & ~eagers.isnan())


LIMITS_OF_DOUBLES = {
    **{"exp": 0.7, "exp2": 1.1, "expm1": 1.4, "log": 0.9, "log2": 1.6, "log10": 1.8, "log1p": 0.9, "tanh": 2.4, "erf": 1.1},
    **{"sin": 0.9, "cos": 0.9, "tan": 2.5, "asin": 2.0, "acos": 1.2, "atan": 1.2},
    **{"sinh": 2.0, "cosh": 2.0, "asinh": 2.0, "acosh": 2.0, "atanh": 2.0},
}
EXACTLY = {"exp2": lambda x: mpmath.mpf(2) ** x, "log2": lambda x: mpmath.log(x, 2)} | {
    name: getattr(mpmath, name) for name in LIMITS_OF_DOUBLES if name not in ("exp2", "log2")
}


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "limit"), LIMITS_OF_DOUBLES.items())
def test_mathematics_of_doubles_are_accurate(name: str, limit: float) -> None:
    """Against arithmetic of forty digits, and where numbers end as eager has it."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(8, 400, generator=generator, dtype=torch.float64)
    usual = noise * torch.tensor([1e-9, 1e-3, 0.1, 0.5, 1, 3, 30, 3e4], dtype=torch.float64)[:, None]
    turns = torch.arange(-200, 200, dtype=torch.float64) * math.pi / 2
    x = torch.cat([usual.flatten(), turns, torch.linspace(-745, 709, 500, dtype=torch.float64)])
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 709.79, -745.14, -746.0, 1e300, -1e300, 5e-324, -5e-324, 2.0**53]
    function = getattr(torch, name)
    (y,) = build(runnable_of(module(lambda x: function(x), x))).call(x)
    with mpmath.workdps(40):
        worst = max(map(partial(_units_apart, EXACTLY[name]), x.tolist(), y.tolist()))
    assert worst <= limit
    ends = torch.tensor(special, dtype=torch.float64)
    (found,) = build(runnable_of(module(lambda x: function(x), ends))).call(ends)
    eager = function(ends)
    torch.testing.assert_close(found, eager, rtol=1e-15, atol=2e-310, equal_nan=True)
    assert torch.equal(found.signbit() & (found == 0), eager.signbit() & (eager == 0) & (found == 0))


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 7.0, 0.1, -0.1, 1e10, 1e30, -1e30, 1e-40, math.inf, -math.inf, math.nan]
ROUNDS = {torch.fmod: 0.0, torch.remainder: 0.0, torch.floor_divide: 0.0, torch.atan2: 1.2, torch.hypot: 1.1, torch.pow: 1.5}
"""Functions of two numbers, and by how many epsilons they may differ from what is exact."""


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("function", ROUNDS, ids=lambda function: function.__name__)
def test_functions_of_two_numbers_are_eagers(function: Callable, dtype: torch.dtype) -> None:
    """At every pair of special numbers, with quotients of all sizes, and of numbers that divide each other."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(5, 3000, generator=generator, dtype=dtype)
    scales = torch.tensor([1, 1e3, 1e8, 1e-3, 10], dtype=dtype)[:, None]
    special = torch.tensor(SPECIAL, dtype=dtype)
    divides = torch.arange(-1000, 1000, dtype=dtype) * 0.25
    a = torch.cat([special.repeat(len(special)), (noise * scales).flatten(), divides])
    b = torch.cat([special.repeat_interleave(len(special)), noise.roll(1, 1).flatten(), divides.roll(37).fmod(3) + 0.25])
    (found,) = build(runnable_of(module(lambda a, b: function(a, b), a, b))).call(a, b)
    eager = function(a, b)
    if ROUNDS[function] == 0 and dtype == torch.float32:  # eager's own quotient overflows where there is a remainder
        overflows = eager.isnan() & found.isfinite()
        assert (a[overflows] / b[overflows]).abs().gt(2.0**60).all()
        found = torch.where(overflows, eager, found)
    exact = function(a.double(), b.double()).to(dtype) if ROUNDS[function] and dtype == torch.float32 else eager
    limit = ROUNDS[function] * torch.finfo(dtype).eps
    torch.testing.assert_close(found, exact, rtol=limit, atol=limit and torch.finfo(dtype).tiny, equal_nan=True)
    if function is not torch.pow:
        assert torch.equal(found.signbit() & (found == 0), eager.signbit() & (eager == 0))


def _units_apart(function: Callable, x: float, y: float) -> float:
    """Units in the last place of f64; 0 where there is no result."""
    exact = function(mpmath.mpf(x)) if math.isfinite(y) else mpmath.inf
    if not mpmath.isfinite(exact) or abs(exact) < sys.float_info.min:
        return 0.0
    return float(abs(y - exact) / math.ulp(float(exact)))


@pytest.mark.compiler
def test_division_by_a_row_value_rounds_as_division_does() -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(64, 256, generator=generator) * torch.logspace(-9, 9, 64)[:, None]
    b = torch.randn(64, 1, generator=generator)
    b[:6, 0] = torch.tensor([0.0, float("inf"), float("nan"), 1e-40, 3e38, -0.0])
    a[:, :4] = torch.tensor([0.0, float("inf"), float("nan"), -0.0])
    (y,) = build(runnable_of(module(lambda a, b: a / b, a, b))).call(a, b)
    torch.testing.assert_close(y, a / b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.compiler
@pytest.mark.parametrize("columns", [3, 16, 17, 48, 100])
def test_extrema_of_rows_keep_nan_wherever_it_is(columns: int) -> None:
    x = torch.randn(columns + 1, columns, generator=torch.Generator().manual_seed(0))
    x[range(columns), range(columns)] = float("nan")

    def f(x):
        return x.amax(1), x.amin(1), x.amax(0), x.maximum(x.flip(1)), x.minimum(x.flip(1)), x.relu()

    for mine, theirs in zip(build(runnable_of(module(f, x))).call(x), f(x), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
