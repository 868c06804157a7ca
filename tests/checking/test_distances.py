"""When a value counts as further from float64 than eager's."""

import pytest
import torch
from dynascope.checking.distances import differs_more


@pytest.mark.parametrize(
    "of_eager, of_made, dtype, differs",
    [
        (1e-7, 2e-6, torch.float32, False),  # a sum whose terms cancel
        (1e-7, 1e-4, torch.float32, True),
        (1e-16, 1e-13, torch.float64, True),
        (0.004, 0.01, torch.bfloat16, False),
        (0.004, 0.2, torch.bfloat16, True),
        (0.02, 1.0, torch.float32, False),  # eager's is made of roundings alone
        (0.0, 0.1, torch.bool, True),
        (0.1, 0.1, torch.bool, False),
    ],
)
def test_roundings_are_no_difference(of_eager, of_made, dtype, differs):
    assert differs_more(of_eager, of_made, dtype) is differs
