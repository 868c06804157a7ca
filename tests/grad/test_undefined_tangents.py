"""Results that a loss does not use contribute undefined gradients, not zeros; tangents of any kind are taken."""

from __future__ import annotations

import itertools

import dynascope
import pytest
import torch

EDGES = {
    "sqrt": lambda x: x.sqrt(),
    "log": lambda x: (x * x.log()).sum(),
    "norm": lambda x: (x * 0).norm(),
    "power": lambda x: x.pow(-1.5),
    "division": lambda x: 1 / x,
    "acos": lambda x: (x + 1).acos(),
    "atan2": lambda x: torch.atan2(x, x),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("read", [0, 1, "both"])
def test_of_functions_without_a_finite_derivative(name, read):
    edge = EDGES[name]

    def program(x):
        return (x * 2).sum(), edge(x)

    def run(function):
        x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
        results = function(x)
        used = results if read == "both" else results[read : read + 1]
        return torch.autograd.grad([r.sum() for r in used], x)[0]

    compiled = dynascope.compile(program)
    for _ in range(2):
        torch.testing.assert_close(run(compiled), run(program), equal_nan=True)


def test_of_what_is_written_to_a_log():
    log = {}

    def program(x):
        log["entropy"] = (x * x.log()).sum()
        return x.sum()

    x = torch.tensor([0.0, 1.0], requires_grad=True)
    assert torch.equal(torch.autograd.grad(dynascope.compile(program)(x), x)[0], torch.ones(2))
    assert log["entropy"].requires_grad


def test_every_pattern_of_three_results_with_numbers_and_changes():
    """Gradients are None for inputs that no used result was computed from."""

    def program(x, w, b, scale, total):
        total.add_(1)
        h = torch.relu(x @ w)
        return h.softmax(-1), (h + b).norm(), (b * scale).exp() + total

    def run(function, used):
        generator = torch.Generator().manual_seed(0)
        leaves = [torch.randn(size, generator=generator).requires_grad_() for size in [(3, 4), (4, 5), (5,)]]
        results = function(*leaves, 2.5, torch.zeros(5))
        return torch.autograd.grad([results[i].sum() for i in used], leaves, allow_unused=True)

    compiled = dynascope.compile(program)
    patterns = [p for count in (1, 2, 3) for p in itertools.combinations(range(3), count)]
    for used in patterns * 2:
        for a, b in zip(run(compiled, used), run(program, used), strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.allclose(a, b, atol=1e-6)


def test_more_patterns_than_get_kernels():
    def program(x):
        return tuple((x * i).sin() for i in range(1, 6))

    compiled = dynascope.compile(program)
    for count in (1, 2, 3, 4, 5):
        for used in itertools.combinations(range(5), count):
            x, y = (torch.arange(3.0, requires_grad=True) for _ in range(2))
            ours, theirs = compiled(x), program(y)
            sum(ours[i].sum() for i in used).backward()
            sum(theirs[i].sum() for i in used).backward()
            assert torch.allclose(x.grad, y.grad)


def program(x):
    return (x.t() * 2).sin() + 1


KINDS = {
    "without storage": lambda y: torch.sgn(y).sum(),
    "expanded": lambda y: y.sum(),
    "transposed": lambda y: (y.t().contiguous() * torch.arange(12.0).view(4, 3)).sum(),
    "part": lambda y: y[1:, ::2].sum(),
    "negated": lambda y: torch.complex(y, y).conj().imag.sum(),
    "part of a complex number": lambda y: torch.view_as_real(torch.complex(y, y * 2).exp())[..., 1].sum(),
    "sparse": lambda y: Sparse.apply(y).sum(),
}


class Sparse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous().to_sparse()


@pytest.mark.parametrize("kind", KINDS)
def test_tangents_of_any_kind(kind):
    def gradient(function):
        x = torch.linspace(0.1, 2, 12).view(4, 3).requires_grad_()
        KINDS[kind](function(x)).backward()
        return x.grad

    compiled = dynascope.compile(program)
    for _ in range(2):
        torch.testing.assert_close(gradient(compiled), gradient(program))


def test_a_sparse_tangent_that_not_every_operator_takes():
    def hard(x):
        return torch.cumsum(x, 1).softmax(-1)

    def gradient(function, wrap):
        x = torch.linspace(0.1, 2, 12).view(4, 3).requires_grad_()
        wrap(function(x)).pow(2).sum().backward()
        return x.grad

    ours = gradient(dynascope.compile(hard), Sparse.apply)
    torch.testing.assert_close(ours, gradient(hard, lambda y: y))


def test_batches_of_tangents():
    def two(x):
        return (x * 2).sin(), x.exp()

    def jacobian(function, used):
        x = torch.arange(3.0, requires_grad=True)
        results = [function(x)[i] for i in used]
        return torch.autograd.grad(results, x, [torch.eye(3)] * len(used), is_grads_batched=True)[0]

    compiled = dynascope.compile(two)
    for used in ([0], [1], [0, 1]):
        torch.testing.assert_close(jacobian(compiled, used), jacobian(two, used))
    x = torch.arange(3.0)
    for vectorize in (False, True):
        ours = torch.autograd.functional.jacobian(compiled, x, vectorize=vectorize)
        theirs = torch.autograd.functional.jacobian(two, x, vectorize=vectorize)
        torch.testing.assert_close(ours, theirs)


def test_a_tangent_that_is_a_subclass():
    class Marked(torch.Tensor):
        pass

    x = torch.arange(3.0, requires_grad=True)
    y = dynascope.compile(lambda x: x.sin())(x)
    y.backward(torch.ones(3).as_subclass(Marked))
    assert torch.allclose(x.grad.as_subclass(torch.Tensor), x.cos())


@pytest.mark.parametrize("used", [0, 1])
def test_what_was_saved_is_found_in_another_recording(used):
    """Torch's answer about a view is asked for while recording, once; then it is known."""

    def program(x, w):
        diagonal = torch.nn.functional.dropout(x.diagonal(), 0.5)
        product = (x.movedim(0, -1) @ w).exp()
        return diagonal.sin(), product

    def gradients(function):
        torch.manual_seed(0)
        x = torch.arange(20.0).reshape(5, 4).div(20).requires_grad_()
        w = torch.linspace(-1, 1, 25).reshape(5, 5).requires_grad_()
        torch.manual_seed(0)
        return torch.autograd.grad(function(x, w)[used].sum(), [x, w], allow_unused=True)

    for ours, theirs in zip(gradients(dynascope.compile(program)), gradients(program), strict=True):
        assert theirs is None and ours is None or torch.allclose(ours, theirs)


def test_an_input_of_inference_mode():
    """It counts no versions; random numbers are drawn once."""

    def program(x, seen):
        return torch.nn.functional.dropout(x, 0.5) * 2, seen + 1

    with torch.inference_mode():
        seen = torch.ones(3)
    x = torch.ones(100, requires_grad=True)
    results = []
    for call in (program, dynascope.compile(program)):
        torch.manual_seed(0)
        results.append(call(x, seen)[0])
    assert torch.equal(*results)


class OfTheSecondAlone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, one, other):
        return one * other

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient


def test_what_no_gradient_reaches_has_none_though_it_has_a_history():
    """None, as eager's: zeros would be a gradient."""
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    call = dynascope.compile(lambda one, other: OfTheSecondAlone.apply(one, other) + 1)
    call(x * 2, y * 2).sum().backward()
    assert x.grad is None and y.grad.tolist() == [2.0] * 3
