"""What nobody reads raises at other sizes as in eager, though no kernel computes it."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope import recording

CALLS = {
    "view": lambda x: x.view(5, 5),
    "summed": lambda x: x.sum_to_size((5, 5)),
    "added": lambda x: x + torch.zeros(5, 5),
    "product": lambda x: torch.mm(x, torch.zeros(5, 5)),
    "view of a view": lambda x: x.reshape(5, 5).t(),
    "unflattened": lambda x: x.unflatten(0, (5, 1)),
    "chunk of parts": lambda x: x.split([2, 3])[0],
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", CALLS)
def test_raises_as_eager(name):
    call = CALLS[name]

    def program(x):
        call(x)
        return x * 2

    compiled = dynascope.compile(program, dynamic=True)
    for size in (5, 8, 5, 6):
        x = torch.rand(size, size)
        try:
            expected = program(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as raised:
                compiled(x)
            assert str(raised.value) == str(error)
        else:
            assert torch.equal(compiled(x), expected)


@pytest.mark.compiler
def test_what_it_gives_back_may_be_its_operand():
    compiled = dynascope.compile(lambda x: x.sum_to_size((5, 5)) * 2, dynamic=True)
    assert torch.equal(compiled(torch.ones(5, 5)), torch.full((5, 5), 2.0))
    with pytest.raises(RuntimeError, match="not expandable"):
        compiled(torch.ones(8, 8))


@pytest.mark.compiler
def test_what_fits_every_size_varies():
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(lambda x: (x.view(-1, 2), x.chunk(2), x @ x.t(), x * 3)[3], dynamic=True)
        for size in (4, 6, 10):
            assert torch.equal(compiled(torch.ones(size, size)), torch.full((size, size), 3.0))
    finally:
        recording.use(before)
    assert len(recorder.report().graphs) == 1
