"""A few random training steps; `random_training.py --count N` runs as many as you like."""

import pytest
from random_training import check_seed


@pytest.mark.compiler
@pytest.mark.parametrize("seed", range(12))
def test_random_training(seed):
    check_seed(seed)
