"""`torch.quantile` looks at its fractions where they are on the CPU, also where nobody reads the result."""

import dynascope
import pytest
import torch

X = torch.randn(5, 3)


@pytest.mark.parametrize("function", [torch.quantile, torch.nanquantile, torch.Tensor.quantile, torch.Tensor.nanquantile])
@pytest.mark.parametrize("is_read", [True, False])
def test_fractions_out_of_range(function, is_read):
    def program(x, q):
        found = function(x, q, dim=0)
        return found if is_read else x + 1

    compiled = dynascope.compile(program)
    fine = torch.tensor([0.25, 1.0])
    torch.testing.assert_close(compiled(X, fine), program(X, fine))
    for fractions in ([0.5, 1.1], [-0.1], [float("nan")]):
        with pytest.raises(RuntimeError, match="q values must be in the range"):
            compiled(X, torch.tensor(fractions))
    torch.testing.assert_close(compiled(X, fine), program(X, fine))
