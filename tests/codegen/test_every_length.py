"""Kernels for processors at every length around their vectors and tiles: one kernel for all lengths, and one for each."""

from __future__ import annotations

import dynascope
import pytest
import torch

pytestmark = pytest.mark.compiler

LENGTHS = (*range(2, 36), 47, 48, 63, 64, 65, 100, 127, 129)
DTYPES = (torch.float32, torch.bfloat16, torch.uint8)


def numbers(rows, columns, dtype):
    generator = torch.Generator().manual_seed(rows * 131 + columns)
    return torch.randint(0, 5, (rows, columns), generator=generator).to(dtype)


def along_both(x):
    """Of rows and of columns, of the tensor and transposed: what is exact in every type, so that a lane too many shows."""
    plain = x.sum(1), x.sum(0), x.amax(1), x.amin(0), x.argmax(1), x.argmin(0), x.any(1), x.all(0), x.argmax(), x.amax()
    other = x.t().sum(1), x.t().argmax(0), x[:, 1:].sum(1), x[:, ::2].amax(0), (x == x.amax(1, keepdim=True)).sum(1)
    return *plain, *other, x.sum(), x.t().contiguous(), torch.where(x > 2, x, x.flip(1)), x[:, :1] == x


def check(found, wanted, what):
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert (one.dtype, one.stride()) == (other.dtype, other.stride()), f"{what}, result {number}"
        assert torch.equal(one, other), f"{what}, result {number}: {one} instead of {other}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_kernel_for_all_lengths(dtype):
    compiled = dynascope.compile(along_both, dynamic=True)
    for number, columns in enumerate(LENGTHS):
        for rows, width in ((3, columns), (columns, 2 + number % 7)):
            x = numbers(rows, width, dtype)
            check(compiled(x), along_both(x), f"{rows} times {width}")


TURNED = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.bool)


@pytest.mark.parametrize("dtype", TURNED, ids=str)
def test_what_is_read_across_the_lanes(dtype):
    """Blocks of it are turned, whole ones and the rests at both ends."""

    def program(x, y):
        return x.t() | y if dtype == torch.bool else x.t() + y, torch.where(y == 0, x.t(), y)

    compiled = dynascope.compile(program, dynamic=True)
    for rows in (8, 15, 16, 17, 32, 40, 65):
        for columns in (8, 9, 16, 31, 33, 48, 64):
            x, y = numbers(rows, columns, dtype), numbers(columns, rows, dtype)
            check(compiled(x, y), program(x, y), f"{rows} times {columns}")
