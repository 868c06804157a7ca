"""A few calls of torch with numbers that vary, others each time; `numbers_in_calls.py` runs all of them."""

import random

import pytest
from numbers_in_calls import CALLS, differences


@pytest.mark.compiler
@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore")
def test_some_calls():
    seed = random.randrange(10**6)
    print("seed", seed)
    for name, call, numbers in random.Random(seed).sample(CALLS, 4):
        assert not list(differences(call, numbers)), name
