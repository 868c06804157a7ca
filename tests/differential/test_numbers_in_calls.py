"""A few calls of torch with numbers that vary, others each time; `numbers_in_calls.py` runs all of them."""

import random

import dynascope
import pytest
import torch
from dynascope.loops.lower import pointwise
from numbers_in_calls import CALLS, differences


@pytest.mark.compiler
@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore")
def test_some_calls():
    seed = random.randrange(10**6)
    print("seed", seed)
    for name, call, numbers in random.Random(seed).sample(CALLS, 4):
        assert not list(differences(call, numbers)), name


@pytest.mark.compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("side", ["min", "max"])
def test_a_lone_limit_that_is_not_a_number_leaves_all_as_it_is_before_torch_2_13(side, monkeypatch):
    monkeypatch.setattr(pointwise, "_one_nan_counts", lambda: False)
    x = torch.randn(8)
    compiled = dynascope.compile(lambda x, n: x.clamp(**{side: n}))
    for number in (0.5, 0.25, float("nan"), -0.5):
        wanted = x if number != number else x.clamp(**{side: number})
        assert torch.equal(compiled(x, number), wanted)
