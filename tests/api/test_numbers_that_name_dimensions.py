"""A number that varies and names a dimension: what is computed hangs on it, so it is known in each graph."""

import dynascope
import pytest
import torch

X = torch.arange(24.0).view(4, 6) / 10
USES = {
    "sum": lambda x, n: x.sum(dim=n % 2, keepdim=True),
    "amax": lambda x, n: x.amax(dim=(n % 2,)),
    "softmax": lambda x, n: x.softmax(n % 2),
    "argmax": lambda x, n: x.argmax(n % 2),
    "prod": lambda x, n: x.prod(n % 2),
    "logsumexp": lambda x, n: x.logsumexp(n % 2),
    "any": lambda x, n: (x > 2).any(n % 2),
    "cat": lambda x, n: torch.cat([x, x + 1], n % 2),
    "transpose": lambda x, n: x.view(2, 2, 6).transpose(0, n % 3) + 1,
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", USES)
def test_results_are_those_of_the_dimension_of_the_call(name):
    use = USES[name]
    compiled = dynascope.compile(use)
    for n in (1, 2, 3, 4, 5):
        ours, theirs = compiled(X.clone(), n), use(X, n)
        assert (ours.shape, ours.stride()) == (theirs.shape, theirs.stride())
        torch.testing.assert_close(ours, theirs)


@pytest.mark.compiler
def test_gradients_are_those_of_the_dimension_of_the_call():
    def weights(x, n):
        return (x.softmax(n % 2) * x).sum(n % 2)

    compiled = dynascope.compile(weights)
    for n in (1, 2, 3, 4):
        found = []
        for function in (compiled, weights):
            x = X.clone().requires_grad_()
            function(x, n).square().sum().backward()
            found.append(x.grad)
        torch.testing.assert_close(*found)
