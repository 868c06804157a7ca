"""Elements that lie a few apart are read and written as whole vectors, whose lanes are picked: right at every length, and only there."""

from __future__ import annotations

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import dynascope
import pytest
import torch
from dynascope.codegen.module import emit
from dynascope.loops.lower import lower
from dynascope.runtime.machine import this_machine
from dynascope.schedule.fusion import fuse
from recording import record

pytestmark = pytest.mark.compiler

DTYPES = (
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
)  # fmt: skip
WRITTEN = re.compile(r"^ *interleave\(", re.M)
SHAPES = ((4,), (33,), (7, 64), (5, 101), (3, 16))


def pairs(a, b):
    return torch.stack([a + a, b + a], -1)


def threes(a, b):
    out = torch.empty(*a.shape, 3, dtype=a.dtype)
    out[..., 0], out[..., 2], out[..., 1] = a + b, a, a + a
    return out


def fours(a, b):
    out = torch.empty(*a.shape, 4, dtype=a.dtype)
    out[..., 3], out[..., 1], out[..., 2], out[..., 0] = a + b, a, 1, b
    return out


def three_of_four(a, b):
    out = torch.zeros(*a.shape, 4, dtype=a.dtype)
    out[..., 3], out[..., 1], out[..., 0] = a + b, a + a, b
    return out


def in_steps(a, b):
    return a[..., ::3] + b[..., ::3], a[..., 1::4] + b[..., 1::4], a[..., ::2] + a[..., ::2]


def rotated_in_place(a, b):
    a = a.clone()
    even, odd = a[..., :-1:2], a[..., 1::2]
    new = even + odd, odd + odd + even
    a[..., :-1:2], a[..., 1::2] = new
    return a


PROGRAMS = (pairs, threes, fours, three_of_four, in_steps, rotated_in_place)


def numbers(shape, dtype):
    generator = torch.Generator().manual_seed(sum(shape))
    return [torch.randint(0, 30, shape, generator=generator).to(dtype) for _ in range(2)]


def check(compiled, program, given):
    wanted, found = program(*given), compiled(*given)
    wanted, found = ((each if isinstance(each, tuple) else (each,)) for each in (wanted, found))
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride()


@pytest.mark.turns(3)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_elements_a_few_apart(program, dtype):
    for shape in SHAPES:
        if program is not rotated_in_place or shape[-1] % 2 == 0:
            check(dynascope.compile(program, dynamic=False), program, numbers(shape, dtype))


def test_bits_of_truth_in_turns():
    def program(a, b):
        return torch.stack([a & b, a | b], -1), a[..., ::2] ^ b[..., ::2]

    check(dynascope.compile(program), program, [each > 15 for each in numbers((5, 64), torch.int64)])


def texts(program, given):
    made = emit(fuse(lower(record(program, given))), this_machine())
    return "".join(kernel.text for kernel in made.distinct)


def joined(*parts):
    return torch.cat([part[..., None] for part in parts], -1)


def test_vectors_are_read_and_written_whole():
    given = numbers((8, 64), torch.float32)
    assert len(WRITTEN.findall(texts(lambda a, b: joined(a + b, a * b), given))) == 1
    assert len(WRITTEN.findall(texts(lambda a, b: joined(a + b, a * b, a, b), given))) == 1
    assert "every<3>(" in texts(in_steps, given)


def test_what_is_rounded_after_it_is_joined_is_written_so_too():
    """The loop over the two that were joined is written out: nothing asks which of them a lane is."""

    def rotated(x, angle):
        even, odd = x[..., ::2].float(), x[..., 1::2].float()
        cosine, sine = angle.cos(), angle.sin()
        return joined(even * cosine - odd * sine, even * sine + odd * cosine).flatten(-2).bfloat16()

    given = [torch.randn(4, 8, 64).bfloat16(), torch.randn(8, 32)]
    text = texts(rotated, given)
    assert len(WRITTEN.findall(text)) == 1 and text.count("cos_(") == 1 and "greater" not in text
    check(dynascope.compile(rotated), rotated, given)


def test_lanes_go_over_what_is_a_few_apart_where_little_lies_side_by_side():
    """The two columns of a cell lie side by side, and vectors of two are none."""

    def rearranged(x, y):
        return torch.ops.aten.pixel_unshuffle(x / y, 2)

    given = [torch.randn(2, 3, 32, 32), torch.randn(2, 3, 32, 32)]
    text = texts(rearranged, given)
    assert "every<2>(" in text and "t[k]" not in text
    check(dynascope.compile(rearranged), rearranged, given)


def test_lanes_go_over_what_is_read_most_often():
    """Distances of all rows to all: written side by side along the others' rows, but read along the columns, once for each pair."""

    def distances(x, y):
        return (x[:, None] - y[None]).abs().sum(-1)

    given = [torch.randint(-9, 9, (rows, 32)).float() for rows in (333, 301)]
    assert "t[k]" not in texts(distances, given)
    check(dynascope.compile(distances), distances, given)


def test_rows_side_by_side_are_gone_through_in_whole_vectors_first():
    """What is picked lane by lane is written out for whole vectors, and so for all but the last of a number of rows that varies."""

    def sums(x, at):
        return x[:, at].sum(0)

    compiled = dynascope.compile(sums, dynamic=True)
    for rows, columns in ((40, 100), (40, 7), (13, 33), (40, 64)):
        check(compiled, sums, [torch.randint(-9, 9, (rows, 200)).float(), torch.randint(0, 200, (columns,))])
    assert re.search(r"r0_step\(r0_at, \d+\);", texts(sums, [torch.randn(40, 200), torch.randint(0, 200, (100,))]))
