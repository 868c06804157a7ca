"""Random calls of what torch offers on tensors (`calls_of_torch.py`), and those that were answered wrongly once.

    python bench/campaign.py torch-calls --first 100000 --seconds 60         new ones; torch-calls-kernels with kernels
"""

import dynascope
import pytest
import torch
from calls_of_torch import differs

pytestmark = pytest.mark.may_break
SHARE = 100
MENDED = (563, 1191, 2619, 2819, 4163, 4190, 81000021, 990000852)
"""Differed once."""


@pytest.mark.parametrize("first", range(0, 500, SHARE))
def test_random_calls_give_what_eager_gives(first):
    found = [report for report in map(differs, range(first, first + SHARE)) if report is not None]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", MENDED)
def test_calls_that_differed_once(seed):
    assert differs(seed) is None


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_no_dimensions_reduce_nothing(name, keepdim):
    function = getattr(torch, name)

    def program(x):
        return function(x - 1, (), keepdim=keepdim), function(x, dim=(0, 1))

    x = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    ours, theirs = dynascope.compile(program)(x), program(x)
    assert all(map(torch.equal, ours, theirs))


def test_comparisons_by_their_methods_are_in_the_graph():
    def program(x):
        return x.__lt__(0.5), x.__eq__(x)

    x = torch.arange(3.0)
    with dynascope.expected():
        found = dynascope.compile(program, backend="eager")(x)
    assert [each.tolist() for each in found] == [[True, False, False], [True, True, True]]
