"""A few of the random programs of numbers and shapes; `number_programs.py --count N` runs as many as you like."""

import pytest
from number_programs import differences, program, written

MENDED = {
    "a size of a dimension that varies": written("out.append(x.size(n % 2))", "out.append(y.stride(-1 - m % 2))"),
    "shapes that vary broadcast": written("out.append(torch.broadcast_shapes(x.shape, (n % 3 + 1, 1, 1)))"),
    "what is cut at a size that varies": written("y = y[:, : (m % 7 + 1)]", "out.append(y.size(-1 - y.size(1) % 2))"),
    "what is cut at either of two": written("x = x[:, : (((m - n) % 5) % 7 + 1)]", "out.append(tuple(x.shape))"),
    "a remainder that is 0 seldom": written("x = y[:: n % 5 + 1]", "y = x[m % x.shape[0] :]"),
    "contiguous of one row": written("y = y[:: (m % 7 + 1)]", "y = y.t().contiguous()", "x = y + 1"),
    "the smaller of a size and a remainder": written("x = y.narrow(0, 0, min(y.size(0), (m % 7 + 1)))", "out.append(x.shape[0])"),
    "parts of rows": written("x = x.flip(n % 2).split((n * 3) % 7 + 1, n % 2)[-1]"),
}


def test_programs_are_reproducible():
    assert program(3) == program(3) != program(4)


@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MENDED)
def test_what_was_mended(name):
    for seed in (0, 1, 2, 3, 14):
        assert not list(differences(MENDED[name], seed=seed))


@pytest.mark.turns(6)
@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(24))
def test_programs_equal_eager(seed):
    assert not list(differences(program(seed), seed=seed))
