"""Seed 002: the rewritten bytecode of a function with a branch on a tensor."""

import pytest
import torch


def toy_example(a, b):
    x = a + b
    x = x / 2.0
    if x.sum() < 0:
        return x * -1.0
    return x


@pytest.mark.expects("data-dependent-branch")
def test_each_side_of_the_branch(optimize, backend):
    compiled = optimize(toy_example)
    a, b = torch.ones(3), torch.ones(3)
    torch.testing.assert_close(compiled(a, b), toy_example(a, b))
    assert backend.counts == [4]
    torch.testing.assert_close(compiled(-a, -b), toy_example(-a, -b))
    assert backend.counts == [4, 1]
