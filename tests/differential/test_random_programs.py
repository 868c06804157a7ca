"""A few of the random programs; `random_programs.py --count N` runs as many as you like."""

import pytest
from random_programs import check_seed, random_program


def test_programs_are_reproducible():
    assert random_program(3) == random_program(3) != random_program(4)


@pytest.mark.parametrize("seed", range(60))
def test_capture_equals_eager(seed, tmp_path):
    check_seed(seed, tmp_path, backend="eager")


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("seed", [*range(100, 130), 2088])
def test_kernels_equal_eager(seed, tmp_path):
    check_seed(seed, tmp_path)
