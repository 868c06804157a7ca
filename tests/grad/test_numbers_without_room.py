"""Which numbers a type has no room for: those that become others, or infinite, as its elements."""

from __future__ import annotations

import math

import dynascope
import pytest
import torch
from dynascope.grad.build import overflows
from dynascope.grad.tape import Value, layout_of

NUMBERS = (
    *(0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, 65504, 70000, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1),
    *(1.5, -2.5, 300.5, 6e4, 1e5, 1e38, 1e39, -1e39, 1e300, math.inf, -math.inf, math.nan),
)
DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)


def has_room(number: float, dtype: torch.dtype) -> bool:
    if not math.isfinite(number) or number == -1:  # torch writes -1 to unsigned numbers too
        return True
    if dtype.is_floating_point:
        return bool(torch.tensor(float(number), dtype=torch.float64).to(dtype).isfinite())
    whole = int(number)
    return -(2**63) <= whole < 2**63 and torch.tensor(whole).to(dtype).item() == whole


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_overflows_has_no_room(dtype):
    tensor = Value(layout_of(torch.zeros(2, dtype=dtype), torch.device("cpu")))
    for number in NUMBERS:
        expected = not has_room(number, dtype)
        assert overflows((tensor, number), {}) == expected, number
        assert overflows((), {"value": number, "dtype": dtype}) == expected, number
        assert overflows((tensor, 1), {"alpha": number}) == expected, number


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64], ids=str)
def test_truth_values_and_complex_numbers_have_room_for_all(dtype):
    tensor = Value(layout_of(torch.zeros(2, dtype=dtype), torch.device("cpu")))
    assert not any(overflows((tensor, number), {}) for number in NUMBERS)
    assert not any(overflows((number,), {}) for number in NUMBERS)


def test_complex_numbers_among_real_tensors_change_types_as_in_eager():
    def function(x):
        given = torch.nn.functional.threshold(x, 1 + 0j, 2 + 0j)
        return torch.addcmul(x, x, x, value=2 + 0j), torch.addcdiv(x, x, x, value=2 + 0j), x == 1 + 0j, x != 1j, given

    x = torch.tensor([1.0, 2.0])
    for ours, eagers in zip(dynascope.compile(function)(x), function(x), strict=True):
        assert ours.dtype == eagers.dtype and torch.equal(ours, eagers)
