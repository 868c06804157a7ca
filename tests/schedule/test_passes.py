"""How the values of a group are placed in passes over its columns."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "runtime"))

import pytest
import torch
from compiled import check, kernels


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_reduction_of_a_value_that_no_column_changes_still_has_its_pass(dtype) -> None:
    """Nothing varies along the columns, so that only the reduction itself asks for a pass over them."""
    module = check(
        lambda total, bias: total.expand(2, 8).sum(0, keepdim=True).view(8) + bias,
        torch.tensor(2.0),
        torch.randn(8).to(dtype),
    )
    assert len(kernels(module)) == 1
