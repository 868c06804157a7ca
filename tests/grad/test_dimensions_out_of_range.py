"""A dimension that the operand has not, where torch's meta kernel does not look: eager's error, not a number."""

import dynascope
import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("operation", [torch.softmax, torch.log_softmax, F.softmin], ids=lambda each: each.__name__)
@pytest.mark.parametrize("x", [torch.tensor(1.5), torch.ones(3)], ids=["a number", "a row"])
def test_softmax(operation, x):
    with pytest.raises(IndexError, match=r"but got 3"), dynascope.expected("operator-failed", required=False):
        dynascope.compile(lambda x: operation(x, 3) * 2)(x)
