"""`torch.profiler.record_function` around what breaks: the block is left by torch's own `__exit__`, which finds nothing to end."""

import dynascope
import pytest
import torch
from torch.profiler import record_function


@pytest.mark.expects("print-call")
def test_an_error_leaves_the_block_after_a_break():
    def program(x):
        try:
            with record_function("block"):
                print(end="")
                raise ValueError(x.shape)
        except ValueError as error:
            return error.args

    assert dynascope.compile(program, backend="eager")(torch.ones(2)) == (torch.Size([2]),)


@pytest.mark.expects("print-call")
def test_a_block_is_left_twice():
    def program(x):
        block = record_function("block")
        for _ in range(2):
            with block:
                print(end="")
                x = x + 1
        return x, block.name, block.run_callbacks_on_exit

    found = dynascope.compile(program, backend="eager")(torch.zeros(1))
    assert found[0].tolist() == [2.0] and found[1:] == ("block", True)
