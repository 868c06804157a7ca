"""The gradient of an activation lies in memory as eager's own kernel leaves it, for each order of memory of input and tangent."""

import dynascope
import pytest
import torch
import torch.nn.functional as F

ACTIVATIONS = [
    *(F.relu, F.relu6, F.hardtanh, F.hardswish, F.hardsigmoid, F.elu, F.selu, F.celu, F.leaky_relu, F.softplus, F.silu),
    *(F.mish, F.gelu, F.logsigmoid, F.softshrink, F.hardshrink, F.tanhshrink, torch.tanh, torch.sigmoid),
    lambda x: F.threshold(x, 0.1, 0.2),
    lambda x: F.binary_cross_entropy(x.sigmoid(), torch.full((4, 4), 0.25), reduction="none"),
]


@pytest.mark.compiler
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("turned", [False, True])
def test_strides_of_the_gradient(activation, turned):
    compiled = dynascope.compile(activation)
    x = torch.linspace(-2, 4, 16).reshape(4, 4).requires_grad_()
    x = (x * 1).t() if turned else x * 1
    for tangent in (torch.arange(16.0).view(4, 4), torch.arange(16.0).view(4, 4).t()):
        expected, found = (torch.autograd.grad(f(x), x, tangent)[0] for f in (activation, compiled))
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected)
