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


FACTS = {
    "size": lambda x, n: x.size(n % 3),
    "stride": lambda x, n: x.stride(dim=n % 3),
    "shape": lambda x, n: x.shape[n % 3],
    "part of the shape": lambda x, n: x.shape[: n % 3],
    "size of a part": lambda x, n: x[:, :n].size(n % 2),
    "stride of a part": lambda x, n: x[:, :, : 2 + n % 3].contiguous().stride(n % 2),
    "flattened": lambda x, n: x.flatten(n % 3).shape,
    "type": lambda x, n: torch.result_type(x.long(), n / 2 if n > 3 else n),
    "broadcast": lambda x, n: torch.broadcast_shapes((n, 1), (1, 5), n // n),
    "broadcast with a tensor": lambda x, n: torch.broadcast_shapes(x.shape, (n, 1, 1, 1), (5,)),
    "same size": lambda x, n: x[..., :n].is_same_size(x[..., : 6 - n]),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_are_those_of_the_number_of_the_call(name):
    compiled = dynascope.compile(lambda x, n: (FACTS[name](x, n), x + n), backend="eager")
    x = torch.arange(60.0).view(3, 4, 5)
    for n in (1, 2, 3, 4, 5, 7, 6):
        found, wanted = compiled(x, n)[0], FACTS[name](x, n)
        assert (type(found), found) == (type(wanted), wanted)


@pytest.mark.parametrize("swapped", [False, True])
def test_tensors_of_one_size_are_told_whichever_of_them_varies(swapped):
    compiled = dynascope.compile(lambda x, y: (x.is_same_size(y), x * 2), backend="eager")
    for sizes in ((4, 4), (4, 5), (4, 6), (5, 5), (6, 5), (7, 7), (7, 8), (1, 1), (1, 7)):
        one, other = map(torch.ones, reversed(sizes) if swapped else sizes)
        assert compiled(one, other)[0] is one.is_same_size(other)


def test_shapes_that_vary_are_broadcast_as_those_of_the_call():
    def outer(x, y):
        return x.expand(torch.broadcast_shapes(x.shape, y.shape)) * y

    compiled = dynascope.compile(outer, backend="eager")
    for rows, columns in ((2, 3), (3, 5), (4, 4), (1, 6), (7, 1), (5, 2)):
        x, y = torch.rand(rows, 1), torch.rand(1, columns)
        torch.testing.assert_close(compiled(x, y), outer(x, y), rtol=0, atol=0)


def test_shapes_that_do_not_fit_raise_what_torch_raises():
    def shape(n):
        return torch.broadcast_shapes((n, 2), (3, 2))

    compiled = dynascope.compile(shape, backend="eager")
    assert [compiled(n) for n in (3, 1)] == [shape(3), shape(1)]
    for n in (4, 5, -2):
        errors = []
        for function in (compiled, shape):
            with pytest.raises((RuntimeError, ValueError)) as caught:
                function(n)
            errors.append((caught.type, str(caught.value)))
        assert errors[0] == errors[1]
