"""An index out of range raises what eager raises: the same exception with the same words."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.compiler

READERS = {
    "gather": lambda x, i: torch.gather(x, 1, i),
    "gather, negative": lambda x, i: torch.gather(x, 0, -i),
    "index_select": lambda x, i: torch.index_select(x, 0, i.flatten()),
    "index_select of columns": lambda x, i: torch.index_select(x, 1, -i.flatten()),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding, negative": lambda x, i: F.embedding(-i, x),
    "rows": lambda x, i: x[i],
    "rows, negative": lambda x, i: x[-i],
    "columns": lambda x, i: x[:, i],
    "pairs": lambda x, i: x[i, i],
    "cross_entropy": lambda x, i: F.cross_entropy(x, i[0]),
    "cross_entropy, negative": lambda x, i: F.cross_entropy(x, -i[0]),
    "nll_loss": lambda x, i: F.nll_loss(x.log_softmax(1), i[0]),
    "one_hot": lambda x, i: F.one_hot(i, 3) * x[0, 0],
    "one_hot, negative": lambda x, i: F.one_hot(-i, 9) * x[0, 0],
    "scatter": lambda x, i: x.scatter(1, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(1, i, x),
    "index_put": lambda x, i: x.index_put((i[0],), x[0]),
    "index_add": lambda x, i: x.index_add(0, i[0], x),
}


def outcome(function, *inputs):
    with pytest.raises((IndexError, RuntimeError)) as raised:
        function(*inputs)
    return raised.type, str(raised.value).splitlines()[0]


@pytest.mark.parametrize("name", READERS)
def test_the_exception_is_eagers(name):
    x, index = torch.randn(4, 5), torch.tensor([[0, 7, 1, 2], [1, 2, 3, 0], [0, 0, 1, 2], [1, 1, 1, 1]])
    assert outcome(dynascope.compile(READERS[name]), x, index) == outcome(READERS[name], x, index)


TABLE = torch.arange(10.0, 18.0).reshape(4, 2)


def first_overwritten(x, i):
    rows = TABLE[i]
    rows[0] = 1
    return rows


def looked_up_before_a_write(x, i):
    rows = TABLE[i] * 2
    x[torch.tensor([1])] = 1.0
    return rows + x


def one_row_set(x, i):
    x[0] = TABLE[i][1]
    return x * 1


def rows_set(x, i):
    x[i] = 1.0
    return i + 1


def rows_set_to_rows(x, i):
    x[i] = TABLE
    return i + 1


def rows_set_to_looked_up_rows(x, i):
    x[torch.tensor([3, 2, 1, 0])] = TABLE[i]
    return i + 1


def pairs_set(x, i):
    x[i, torch.tensor([0, 1, 0, 1])] = 2.0
    return i + 1


PARTS = {
    "a row": lambda x, i: TABLE[i][0],
    "every other row": lambda x, i: TABLE[i][::2] + 1,
    "the last of an embedding": lambda x, i: F.embedding(i, TABLE)[3:] * 2,
    "rows of rows": lambda x, i: TABLE[i][torch.tensor([0, 0])],
    "what is left of a concatenation": lambda x, i: torch.cat([TABLE[i], x])[6:],
    "of a selection": lambda x, i: x.index_select(0, i).narrow(0, 2, 1),
    "of pads": lambda x, i: F.pad(TABLE[i], (0, 0, -2, 0)),
    "of two": lambda x, i: ((TABLE[i] + 1)[0], (TABLE[i] * 2)[1]),
}
PARTS |= {f.__name__: f for f in (first_overwritten, looked_up_before_a_write, one_row_set, rows_set, rows_set_to_rows)}
PARTS |= {f.__name__: f for f in (rows_set_to_looked_up_rows, pairs_set)}


@pytest.mark.parametrize("name", PARTS)
def test_what_is_read_in_part_raises_and_what_is_written_stays(name):
    program = PARTS[name]
    function = dynascope.compile(program)
    for places in ([0, 1, 2, 3], [0, 7, 1, 2], [9, 0, 1, 2], [0, 1, 2, -9]):
        seen = []
        for run in (function, program):
            x = torch.arange(8.0).reshape(4, 2)
            try:
                result = run(x, torch.tensor(places))
            except (IndexError, RuntimeError) as error:
                result = type(error), str(error).splitlines()[0]
            seen.append((result, x))
        (mine, written), (wanted, expected) = seen
        assert torch.equal(written, expected)
        if isinstance(wanted, tuple) and isinstance(wanted[0], type):
            assert mine == wanted
        else:
            torch.testing.assert_close(mine, wanted)


@pytest.mark.expects("data-dependent-shape")
def test_one_hot_of_good_classes():
    classes = torch.tensor([[0, 2, 1], [1, 1, 0]])
    compiled = dynascope.compile(lambda i: (F.one_hot(i, 3), F.one_hot(i, 5).float() * 2, F.one_hot(i)))
    for ours, theirs in zip(
        compiled(classes), (F.one_hot(classes, 3), F.one_hot(classes, 5).float() * 2, F.one_hot(classes)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, check_stride=True)
