"""What the program tells to require grad and gives back is a leaf when the graph has run, and all is one graph."""

import dynascope
import pytest
import torch


def a_step_by_hand(x):
    (gradient,) = torch.autograd.grad((x * x).sum(), x)
    return (x - 0.1 * gradient).detach().requires_grad_(), gradient


def made_from_nothing(x):
    return torch.zeros(4, requires_grad=True), x + 1


def twice(x):
    leaf = (x * 2).detach()
    return leaf, leaf.requires_grad_(), leaf.requires_grad, leaf.is_leaf, leaf.grad


def of_memory_that_is_written(x):
    base = x.detach() * 2
    leaf = base.detach()
    leaf.requires_grad_()
    base.add_(1)
    return leaf, base


def with_a_view_from_before(x):
    base = x.detach() * 2
    view = base.view(-1)
    base.requires_grad_()
    return base, view


def of_the_inputs_memory(x):
    return x.data.requires_grad_()


def without_recording(x):
    with torch.no_grad():
        return (x * 2).requires_grad_()


def beside_one_that_nobody_sees(x):
    leaf, other = (x * 2).detach().requires_grad_(), (x * 3).detach().requires_grad_()
    return leaf, torch.autograd.grad((other * other).sum(), other)[0]


def a_view_of_what_nobody_holds(x):
    return torch.arange(6.0).view(2, 3).requires_grad_(), x + 1


ONE_GRAPH = [
    a_step_by_hand, made_from_nothing, twice, of_memory_that_is_written, with_a_view_from_before, of_the_inputs_memory,
    without_recording, beside_one_that_nobody_sees, a_view_of_what_nobody_holds,
]  # fmt: skip


def read_afterwards(x):
    leaf = (x * 2).detach().requires_grad_()
    return leaf, leaf * 3


def read_through_a_view_without_recording(x):
    leaf = torch.arange(6.0).view(2, 3).requires_grad_()
    with torch.no_grad():
        view = leaf[:]
    return view.clone(), leaf


def with_a_hook(x):
    leaf = (x * 2).detach().requires_grad_()
    leaf.register_hook(lambda gradient: gradient * 2)
    return leaf


def with_a_gradient(x):
    leaf = (x * 2).detach().requires_grad_()
    leaf.grad = torch.ones_like(leaf)
    return leaf


def seen(function):
    """All that can be told of each result, and of the gradients that then come back."""
    x = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_()
    results = function(x)
    results = results if type(results) is tuple else (results,)
    tensors = [each for each in results if isinstance(each, torch.Tensor)]
    found = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in results]
    found += [(each.is_leaf, each.requires_grad, each.grad_fn is None, each._is_view()) for each in tensors]
    found += [each.grad is None or each.grad.clone() for each in tensors if each.is_leaf]
    found += [one is other for one in tensors for other in tensors]
    sum((each * each).sum() for each in tensors if each.requires_grad).backward()
    return found + [each.grad for each in (*tensors, x) if each.is_leaf]


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return len(one) == len(other) and all(map(same, one, other)) if isinstance(one, (list, tuple)) else one == other


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", ONE_GRAPH)
def test_one_graph(function, backend):
    call, expected = dynascope.compile(function, backend=backend, fullgraph=True), seen(function)
    assert same(seen(call), expected)
    assert same(seen(call), expected)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", [read_afterwards, with_a_hook, with_a_gradient])
@pytest.mark.expects("tensor-attribute")
def test_as_eager_after_a_break(function, backend):
    call, expected = dynascope.compile(function, backend=backend), seen(function)
    assert same(seen(call), expected)
    assert same(seen(call), expected)


@pytest.mark.expects("tensor-attribute")
def test_a_view_taken_without_recording_leads_to_no_leaf():
    """Kernels give the leaf: it is a view of what requires no grad, and so is what is taken of it."""
    call, expected = dynascope.compile(read_through_a_view_without_recording), seen(read_through_a_view_without_recording)
    assert same(seen(call), expected)
    assert same(seen(call), expected)


def test_what_an_object_gets():
    class Holder:
        pass

    def program(x):
        holder.delta = (x * 2).detach().requires_grad_()
        log.append(x.clone().requires_grad_())
        return x + 1

    holder, log = Holder(), []
    call = dynascope.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        call(torch.ones(3))
        assert holder.delta.is_leaf and holder.delta.requires_grad and log[-1].is_leaf and log[-1].requires_grad
