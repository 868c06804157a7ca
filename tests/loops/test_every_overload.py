"""What eager makes of calls of every overload that has a rule the loops make, interpreted one by one.

A number that has no room in a type raises. Other calls that eager refuses, for their types or sizes, capture finds before there are
loops.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.verifying import verify_program
from interpreting import run_program
from overload_calls import ERRORS, OVERLOADS, calls

CALLS = 10
OF_A_NUMBER = re.compile("overflow|cannot be converted")


@pytest.mark.parametrize("name", OVERLOADS)
def test_results_are_eagers(name):
    for call in calls(name, CALLS):
        try:
            wanted = call.program(*call.tensors)
        except ERRORS as error:
            if OF_A_NUMBER.search(str(error)):
                with pytest.raises(ERRORS):
                    run_program(lower(call.graph), call.tensors)
            continue
        lowered = lower(call.graph)
        verify_program(lowered)
        recorded = [node.meta["val"] for node in call.graph.graph.output_node().args[0]]
        if list(map(laid_out, recorded)) != list(map(laid_out, wanted)):
            continue  # what capture finds out on real tensors
        for one, other in zip(run_program(lowered, call.tensors), wanted, strict=True):
            assert laid_out(one) == laid_out(other), call.said
            limits = {"rtol": 1.6e-2, "atol": 1e-2} if one.dtype == torch.bfloat16 else {}
            message = f"{call.said}: ".__add__
            torch.testing.assert_close(one, other, equal_nan=True, msg=message, **limits)


def laid_out(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Strides of dimensions of one element or none say nothing."""
    strides = [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1] if tensor.numel() else []
    return tensor.dtype, tensor.shape, strides
