"""Places that kernels compute: an index that is out of range is an error where a row repeats, too; orders of memory stay."""

import dynascope
import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.compiler

READS = {
    "index_select": lambda rows, at: rows.index_select(0, at % 2),
    "embedding": lambda rows, at: F.embedding(at % 2, rows),
    "index": lambda rows, at: rows[at % 2],
    "gather": lambda rows, at: torch.gather(rows, 0, (at % 2)[:, None].expand(2, 3)),
    "of a computed table": lambda rows, at: (rows * 2).index_select(0, at % 2),
}
TABLES = {
    "one row": lambda: torch.randn(1, 3),
    "one row of many": lambda: torch.randn(3, 3)[:1],
    "one row without a stride": lambda: torch.randn(3).expand(1, 3),
    "a repeated row": lambda: torch.randn(1, 3).expand(2, 3),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("table", TABLES)
def test_an_index_out_of_range(read, table):
    rows, compiled = TABLES[table](), dynascope.compile(READS[read])
    for at in (torch.zeros(2, dtype=torch.int64), torch.arange(2)):
        try:
            expected = READS[read](rows, at)
        except (IndexError, RuntimeError) as error:
            with pytest.raises(type(error), match="out of (range|bounds)"):
                compiled(rows, at)
        else:
            assert torch.equal(compiled(rows, at), expected)


SAME_EVERYWHERE = {
    "zeros": lambda x, at: torch.zeros(2, 2, dtype=torch.int32)[at] + 1,
    "zeros that nobody reads": lambda x, at: (torch.zeros(2, 2, dtype=torch.int32)[at], x + 1)[1],
    "one computed row": lambda x, at: (x[:1] + 1).index_select(0, at),
    "one computed row that nobody reads": lambda x, at: ((x[:1] + 1)[at], x * 2)[1],
    "one computed column": lambda x, at: ((x[:, :1] * 2).gather(1, at.expand(2, 1)), x)[1].sum(),
    "rows that are added up": lambda x, at: torch.zeros(2, 2)[at].sum() + x.sum(),
    "beside a softmax": lambda x, at: (torch.zeros(2, 2)[at] + x).softmax(-1),
    "a loss of one class": lambda x, at: F.cross_entropy(x[:, :1], at.expand(2)),
}


@pytest.mark.parametrize("name", SAME_EVERYWHERE)
def test_an_index_out_of_range_raises_where_it_makes_no_difference(name):
    """What a computed table holds is written into the kernel that reads it, which then may not need the index at all."""
    x, compiled = torch.randn(2, 2), dynascope.compile(SAME_EVERYWHERE[name])
    assert torch.allclose(compiled(x, torch.tensor([0])), SAME_EVERYWHERE[name](x, torch.tensor([0])))
    with pytest.raises((IndexError, RuntimeError)) as caught:
        SAME_EVERYWHERE[name](x, torch.tensor([7]))
    with pytest.raises(caught.type, match="out of (range|bounds)|out of DATA bounds"):
        compiled(x, torch.tensor([7]))


WRITES = {
    "fill": lambda x: torch.empty_strided((2, 3), (1, 2)).fill_(2) * x,
    "copy": lambda x: (x.t().contiguous().t() * 2).copy_(x).exp(),
    "like": lambda x: torch.zeros_like((x.t().contiguous().t() + 1).zero_()) + 1,
    "operand": lambda x: torch.add(x, 1, out=torch.empty_strided((2, 3), (1, 2))) * 2,
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_keeps_its_order_of_memory(name):
    x = torch.arange(6.0).reshape(2, 3)
    result, expected = dynascope.compile(WRITES[name])(x), WRITES[name](x)
    assert torch.allclose(result, expected) and result.stride() == expected.stride()


@pytest.mark.parametrize(
    "function", [lambda x: x.flip(0) * 2, lambda x: torch.roll(x, 1) * 2, lambda x: x.flip(()) * 2]
)
def test_tensors_without_dimensions(function):
    x = torch.tensor(3.0)
    assert torch.equal(dynascope.compile(function)(x), function(x))


def test_a_view_that_is_returned_twice_is_one_object():
    def program(x):
        view = x.t()
        return [view], view

    (inside,), result = dynascope.compile(program)(torch.ones(2, 3))
    assert inside is result
