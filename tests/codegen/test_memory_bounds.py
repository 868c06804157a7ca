"""Kernels write to what is theirs and to nothing beside it, for sizes that vary: memory before and behind each result is looked at.

What lies beside a result belongs to whoever comes next, so that a write there shows as a wrong number somewhere else, or not at all.
"""

import itertools

import dynascope
import pytest
import torch
from dynascope.runtime import build

BESIDE, PATTERN = 64, 0x5A


class Memory:
    """Every result of a kernel with `BESIDE` elements before and behind it."""

    def __init__(self):
        self.made = []

    def empty(self, sizes, strides, dtype):
        extent = 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        whole = torch.empty(extent + 2 * BESIDE, dtype=dtype)
        whole.view(torch.uint8).fill_(PATTERN)
        self.made.append((whole, extent))
        return whole.as_strided(sizes, strides, BESIDE)

    def is_whole(self):
        beside = (part for whole, extent in self.made for part in (whole[:BESIDE], whole[BESIDE + extent :]))
        return all(bool((part.contiguous().view(torch.uint8) == PATTERN).all()) for part in beside)


@pytest.fixture
def memory(monkeypatch):
    found = Memory()
    monkeypatch.setattr(build, "_empty_strided_cpu", found.empty)
    return found


PROGRAMS = {
    "transposed operand": lambda x, y: x.t() + y,
    "both transposed": lambda x, y: (x + y.t()).t() * 2,
    "transposed, of halves": lambda x, y: (x.bfloat16().t() + y.bfloat16()).float(),
    "transposed and summed": lambda x, y: (x.t() * y).sum(0),
    "softmax of the transposed": lambda x, y: (x.t() + y).softmax(-1),
    "rows and columns": lambda x, y: (x.sum(0) + y.sum(1), x.amax(1), y.mean(0)),
    "joined": lambda x, y: torch.cat([x.t(), y], 1) * 2,
    "in turns": lambda x, y: (torch.stack([x, y.t() * 2], 2), torch.stack([x, x + 1, x - 1], 2), x[:, ::2] + x[:, ::2]),
    "moved": lambda x, y: (x[:, 1:] + 1, y[1:].t().contiguous()),
}
STATIC = (8, 9, 16, 20)
VARYING = (2, 3, 7, 8, 9, 15, 16, 17, 31, 33)


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("varies", [(0,), (1,), (0, 1)], ids=["rows vary", "columns vary", "both vary"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_written_beside_a_result(name, varies, memory):
    program = PROGRAMS[name]
    for fixed in STATIC if len(varies) == 1 else (0,):
        compiled = dynascope.compile(program)
        shapes = [(n, fixed) if varies == (0,) else (fixed, n) for n in VARYING]
        for rows, columns in shapes if len(varies) == 1 else itertools.product(VARYING[1::2], VARYING[::2]):
            x, y = torch.randn(rows, columns), torch.randn(columns, rows)
            for dimension in varies:
                dynascope.mark_dynamic(x, dimension)
                dynascope.mark_dynamic(y, 1 - dimension)
            torch.testing.assert_close(compiled(x, y), program(x, y), rtol=2e-2, atol=2e-2)
            assert memory.is_whole(), (fixed, rows, columns)
            memory.made.clear()
