"""A few random graphs with their gradients; `random_gradients.py --count N` runs as many as you like."""

import pytest
from random_gradients import check_seed


@pytest.mark.compiler
@pytest.mark.parametrize("seed", range(4))
def test_as_near_to_float64_as_eager(seed):
    check_seed(seed)
