"""Numbers that libraries define are constants, with `dynamic=True` too."""

import math

import dynascope
import pytest
import torch


def scheduled(x, step, total):
    return x * (0.5 * (1 + math.cos(math.pi * step / total)))


@pytest.mark.compiler
def test_pi_is_no_number_that_varies(compilations):
    compiled = dynascope.compile(scheduled, dynamic=True)
    for step in range(2, 12):
        torch.testing.assert_close(compiled(torch.ones(5), step, 20), scheduled(torch.ones(5), step, 20))
    assert len(compilations) == 1
