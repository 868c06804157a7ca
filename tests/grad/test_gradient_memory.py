"""Which gradients, results and tangents lie in one memory: as in eager, which clipping and accumulation in place can see."""

from __future__ import annotations

import dynascope
import pytest
import torch
from torch import nn

PROGRAMS = {
    "a sum": (lambda x, a, b: (x * 2 + (a + b)).pow(2), [(3, 4), (4,), (4,)]),
    "two layers": (lambda x, a, b: torch.tanh(x @ a + x @ b), [(3, 4), (4, 4), (4, 4)]),
    "equal biases": (lambda x, a, b: (x.sin() + a) * (x.sin() + b), [(3, 4), (4,), (4,)]),
    "equal sums of rows": (lambda x, a, b: ((x + a) + (x * 2 + b)).exp(), [(5, 4), (4,), (4,)]),
    "the tangent itself": (lambda x, a, b: x + a - b, [(3, 4), (3, 4), (3, 4)]),
    "a copy of the tangent": (lambda x, a, b: x.clone() + a, [(3, 4), (3, 4), (4,)]),
    "parts of one gradient": (lambda x, a, b: torch.cat([x, a, b]).relu(), [(3, 4), (3, 4), (2, 4)]),
    "the parts of a tangent": (lambda x, a, b: torch.cat([x, a, b]), [(3, 4), (3, 4), (2, 4)]),
    "expanded": (lambda x, a, b: x.sum() + a.sum() + b.mean(), [(3, 4), (3, 4), (2, 4)]),
    "stacked": (lambda x, a, b: torch.stack([x, a, b]).sum(0), [(3, 4), (3, 4), (3, 4)]),
    "transposed": (lambda x, a, b: x.t() + a + b.t(), [(3, 4), (4, 3), (3, 4)]),
    "views of equal sizes": (lambda x, a, b: x.view(-1) + a.view(-1) - b.view(-1), [(3, 4), (3, 4), (3, 4)]),
    "all transposed": (lambda x, a, b: x.t() + a.t() + b.t(), [(3, 4), (3, 4), (3, 4)]),
    "parts that meet": (lambda x, a, b: torch.cat([x[0], a[0]]) + torch.cat([b[0], x[0]]), [(1, 4), (1, 4), (1, 4)]),
}


def sharing(tensors):
    """For each tensor the first in the same memory, and whether that is the same object."""
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    first = [storages.index(storage) for storage in storages]
    return [(at, tensors[at] is tensor) for at, tensor in zip(first, tensors, strict=True)]


def inputs(sizes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator).requires_grad_() for size in sizes]


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_autograd_grad(name):
    program, sizes = PROGRAMS[name]

    def run(function):
        leaves = inputs(sizes)
        result = function(*leaves)
        tangent = torch.ones_like(result)
        found = torch.autograd.grad(result, leaves, tangent, allow_unused=True)
        return [g for g in found if g is not None], tangent

    compiled = dynascope.compile(program)
    for _ in range(2):
        (ours, tangent), (theirs, other) = run(compiled), run(program)
        assert sharing(ours) == sharing(theirs)
        assert [at for at, _ in sharing([tangent, *ours])] == [at for at, _ in sharing([other, *theirs])]
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_grad_clipped_and_accumulated(name):
    program, sizes = PROGRAMS[name]

    def run(function):
        leaves, seen = inputs(sizes), []
        for _ in range(3):
            function(*leaves).pow(2).sum().backward()
            having = [leaf for leaf in leaves if leaf.grad is not None]
            nn.utils.clip_grad_norm_(having, 1.0)
            seen += [leaf.grad.clone() for leaf in having]
        return seen, sharing([leaf.grad for leaf in having])

    (ours, memory), (theirs, expected) = run(dynascope.compile(program)), run(program)
    assert [at for at, _ in memory] == [at for at, _ in expected]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_a_tangent_that_is_one_number_everywhere(name):
    """As the sum of results gives it: no leaf takes that for its gradient."""
    program, sizes = PROGRAMS[name]

    def run(function):
        leaves = inputs(sizes)
        function(*leaves).sum().backward()
        found = [leaf.grad for leaf in leaves if leaf.grad is not None]
        return sharing(found), [each.untyped_storage().nbytes() for each in found], [each.stride() for each in found]

    compiled = dynascope.compile(program)
    for _ in range(2):
        assert run(compiled) == run(program)


@pytest.mark.parametrize("make", [lambda: nn.LSTMCell(3, 4), lambda: nn.GRUCell(3, 4), lambda: nn.Bilinear(3, 3, 4)])
def test_of_parameters(make):
    def run(wrap):
        torch.manual_seed(0)
        module = make()
        x = torch.ones(2, 3)
        arguments = (x, x) if isinstance(module, nn.Bilinear) else (x,)
        results = wrap(module)(*arguments)
        sum(r.square().sum() for r in (results if isinstance(results, tuple) else (results,))).backward()
        return sharing([p.grad for p in module.parameters()])

    assert run(dynascope.compile) == run(lambda module: module)


RESULTS = {
    "detached": lambda x: (y := x * 2, y.detach()),
    "detached first": lambda x: ((y := x * 2).detach(), y),
    "detached part first": lambda x: ((y := x * 2)[0].detach(), y),
    "detached, then a part of it": lambda x: (y := x * 2, y.detach()[1:], y[0]),
    "detached input": lambda x: (x.detach(), x * 2),
    "a scalar and what is logged": lambda x: ((loss := (x * x).sum()).detach(), loss),
    "equal, each its own": lambda x: (x * 2, x * 2, (x * 2).detach()),
}


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("name", RESULTS)
def test_of_results(name, requires_grad):
    program = RESULTS[name]
    compiled = dynascope.compile(program)

    def run(function):
        x = torch.ones(3, 4, requires_grad=requires_grad)
        results = function(x)
        facts = [(r.requires_grad, r._is_view(), r.is_leaf) for r in results]
        total = sum((r * 3).sum() for r in results if r.requires_grad)
        gradient = torch.autograd.grad(total, x)[0] if requires_grad else None
        return sharing([x, *results]), facts, gradient

    for _ in range(2):
        ours, theirs = run(compiled), run(program)
        assert ours[:2] == theirs[:2]
        assert ours[2] is None or torch.equal(ours[2], theirs[2])


def test_a_detached_result_can_be_detached_in_place_and_become_a_leaf():
    @dynascope.compile
    def program(x):
        y = x * 2
        return y, y.detach()

    y, d = program(torch.ones(3, requires_grad=True))
    d.detach_().requires_grad_()
    (d * 3).sum().backward()
    assert torch.equal(d.grad, torch.full((3,), 3.0)) and y.grad_fn is not None


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_of_a_tangent_that_the_program_gives(backend, requires_grad):
    """Autograd takes a view of it as the gradient, since nothing else refers to that."""

    def turned(x, tangent):
        x.t().backward(tangent)

    def twice(x, tangent):
        (x.t() + x.t()).backward(tangent)

    def itself(x, tangent):
        (x * 1 + 0).backward(tangent)
        x.backward(tangent)

    for program in (turned, twice, itself):
        found = []
        for function in (program, dynascope.compile(program, backend=backend)):
            x, tangent = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2, requires_grad=requires_grad)
            function(x, tangent.t() if not requires_grad else tangent)
            found.append((x.grad.untyped_storage().data_ptr() == tangent.untyped_storage().data_ptr(), x.grad.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
def test_of_a_tangent_that_one_leaf_gets_a_view_of_and_another_itself(backend):
    def program(x, y, tangent):
        (x.view(4) + y).backward(tangent)
        x.grad.add_(1)

    found = []
    for function in (program, dynascope.compile(program, backend=backend)):
        leaves, tangent = [torch.ones(4, requires_grad=True) for _ in range(2)], torch.ones(4)
        function(*leaves, tangent)
        found.append([each.tolist() for each in (*(leaf.grad for leaf in leaves), tangent)])
    assert found[0] == found[1]


def test_a_gradient_lies_in_memory_as_large_as_eagers():
    """Of the rows of a padded batch each has a gradient of its own; the parts of a concatenation share theirs."""

    def program(a, b, c):
        padded = torch.nn.utils.rnn.pad_sequence([a, b])
        return (padded * 2).sum() + torch.cat([c, c[:1]]).sin().sum()

    found = []
    for function in (program, dynascope.compile(program)):
        leaves = [torch.ones(size, 2, requires_grad=True) for size in (3, 2, 2)]
        function(*leaves).backward()
        gradients = [leaf.grad for leaf in leaves]
        found.append([(each.tolist(), each.storage_offset(), each.untyped_storage().nbytes()) for each in gradients])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    "program, sizes",
    [
        (lambda x, a: x.view(1, 4) + a, [(4,), (1, 4)]),
        (lambda x, a: (x.view(2, 4) + a).view(8) + 1.0, [(8,), (2, 4)]),
        (lambda x, a, b: x.view(1, 4) + a.view(1, 4) + b, [(4,), (2, 2), (1, 4)]),
    ],
)
def test_a_leaf_takes_a_copy_of_what_another_gradient_is_a_view_of(program, sizes):
    """Written in place, as clipping does it."""

    def run(function, part):
        leaves = inputs(sizes)
        result = function(*leaves)
        loss = (result * 2).sum() if part is None else (result[part] * torch.ones_like(result[part])).sum() + result.sum()
        loss.backward()
        gradients = [leaf.grad for leaf in leaves]
        for gradient in gradients:
            gradient.mul_(0.5)
        return sharing(gradients), [gradient.clone() for gradient in gradients]

    compiled = dynascope.compile(program)
    for part in (None, 0, None, 0):
        (ours, values), (theirs, others) = run(compiled, part), run(program, part)
        assert ours == theirs
        torch.testing.assert_close(values, others)
