"""What a type checker knows of a program that uses the package: `make lint` checks it, `test_typed.py` runs it."""

from typing import assert_type

import dynascope
import torch
from torch import nn


def double(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x * times


@dynascope.compile(dynamic=False)
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def use() -> torch.Tensor:
    compiled = dynascope.compile(double, backend="eager")
    assert_type(compiled(torch.ones(2), times=3), torch.Tensor)
    assert_type(triple(torch.ones(2)), torch.Tensor)
    model = dynascope.compile(nn.Linear(2, 2), backend="eager")
    assert_type(model.in_features, int)
    dynascope.config.recompile_limit = 8
    with dynascope.expected(required=False) as expectation:
        result = model(compiled(torch.ones(2)))
    assert_type(expectation.happened, list[str])
    return result
