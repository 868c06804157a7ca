"""`torch.autograd.grad` by tensors that come in: at a later call they may lead to one another."""

import dynascope
import pytest
import torch


def slope(x, w):
    return torch.autograd.grad((x * w).sin().sum(), x, create_graph=True, retain_graph=True)[0]


def leaf(seed):
    return torch.randn(3, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def one_tensor():
    return [leaf(0)] * 2


def a_view_of_the_other():
    x = leaf(0)
    return x, x.view(-1)


def results_of_one():
    z = leaf(0)
    return z * 2, z * 3


def one_of_the_other():
    x = leaf(0) * 2
    return x, x.exp()


def one_that_keeps_its_gradient():
    x, w = leaf(0) * 2, leaf(1)
    x.retain_grad()
    return x, w


@pytest.mark.may_break
@pytest.mark.parametrize("given", [one_tensor, a_view_of_the_other, results_of_one, one_of_the_other, one_that_keeps_its_gradient])
def test_inputs_that_lead_to_one_another(given):
    compiled = dynascope.compile(slope)
    torch.testing.assert_close(compiled(leaf(0), leaf(1)), slope(leaf(0), leaf(1)))
    expected, found = given(), given()
    torch.testing.assert_close(compiled(*found), slope(*expected))
    for one, other in zip(found, expected, strict=True):
        assert one.is_leaf == other.is_leaf
        if one.is_leaf or one.retains_grad:
            assert (one.grad is None) == (other.grad is None)
            if one.grad is not None:
                torch.testing.assert_close(one.grad, other.grad)
