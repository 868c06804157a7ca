"""`torch.cov` and `torch.corrcoef`: one graph for all sizes, as eager computes them."""

import pytest
import torch
from harness import compiled

FUNCTIONS = {
    "covariance": lambda x: torch.cov(x),
    "method": lambda x: x.cov(correction=0),
    "correlation": lambda x: torch.corrcoef(x),
    "method of correlation": lambda x: x.corrcoef(),
    "of a row": lambda x: torch.cov(x[0], correction=2) + torch.corrcoef(x[1]),
    "of columns": lambda x: torch.cov(x.T),
    "off the diagonal": lambda x: (torch.cov(x) - torch.diag(torch.cov(x).diag())).square().sum(),
}


def played(function, dtype):
    found = []
    for size in (4, 6, 9):
        torch.manual_seed(size)
        x = torch.randint(0, 9, (3, size)) if not dtype.is_floating_point and not dtype.is_complex else torch.randn(3, size, dtype=dtype)
        x.requires_grad_(dtype.is_floating_point or dtype.is_complex)
        result = function(x)
        if result.requires_grad:
            result.abs().sum().backward()
        found += [result, result.stride(), x.grad]
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_one_graph_with_eagers_values(name, dtype):
    function = compiled(FUNCTIONS[name])
    torch.testing.assert_close(played(function, dtype), played(FUNCTIONS[name], dtype))
    assert function.compilation.codes == [] and not function.refused


@pytest.mark.filterwarnings("ignore:cov")
@pytest.mark.parametrize("program", [lambda x: torch.cov(x[:, :1]) * 2, lambda x: x.cov(fweights=torch.tensor([1, 2, 1, 3])) + 1])
def test_too_few_observations_and_weights_are_left_to_torch(program):
    x = torch.arange(12.0).view(3, 4).sin()
    function = compiled(program)
    torch.testing.assert_close(function(x), program(x), equal_nan=True)
    assert function.compilation.codes == ["missing-meta-kernel"]
