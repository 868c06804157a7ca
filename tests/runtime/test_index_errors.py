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


@pytest.mark.expects("data-dependent-shape")
def test_one_hot_of_good_classes():
    classes = torch.tensor([[0, 2, 1], [1, 1, 0]])
    compiled = dynascope.compile(lambda i: (F.one_hot(i, 3), F.one_hot(i, 5).float() * 2, F.one_hot(i)))
    for ours, theirs in zip(
        compiled(classes), (F.one_hot(classes, 3), F.one_hot(classes, 5).float() * 2, F.one_hot(classes)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, check_stride=True)
