"""Hooks on what a graph makes, and gradients that it keeps: called as eager calls them, with the gradients that eager has."""

import dynascope
import pytest
import torch
import torch.utils.checkpoint

BACKENDS = pytest.mark.parametrize("backend", ["eager", "dynascope"])


def played(function, compile):
    """Results, gradients and what hooks have seen, over two calls."""
    torch.manual_seed(0)
    seen, found = [], []
    weight, x = torch.randn(3, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    call = compile(function)
    for _ in range(2):
        result = call(x, weight, seen)
        results = result if isinstance(result, tuple) else (result,)
        results[0].sum().backward()
        kept = [None if each.is_leaf else each.grad for each in results[1:]]
        found += [*(each.detach().clone() for each in results), x.grad, weight.grad, *kept]
        found += seen
        x.grad = weight.grad = None
    return found


def check(function, backend, **options):
    expected = played(function, lambda function: function)
    found = played(function, lambda function: dynascope.compile(function, backend=backend, **options))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def of_a_result(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
    return (hidden * hidden + x.sum()).sin()


def several(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.register_hook(lambda gradient: gradient * 2)
    hidden.register_hook(seen.append)
    other = hidden.exp()
    other.register_hook(hook=lambda gradient: gradient + 1)
    return hidden * other


def kept(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.retain_grad()
    x.retain_grad()
    return (hidden * hidden).sum(), hidden


def both_of_one(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.retain_grad()
    hidden.register_hook(lambda gradient: gradient * 3)
    return (hidden * hidden).sum(), hidden


def of_a_leaf(x, weight, seen):
    if not seen:
        weight.register_hook(lambda gradient: seen.append(gradient.clone()))
    return (x @ weight).sum()


def of_the_last_result(x, weight, seen):
    hidden = x @ weight
    hidden.register_hook(seen.append)
    return hidden


WHOLE = [of_a_result, several, kept, both_of_one, of_a_leaf, of_the_last_result]


@BACKENDS
@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_one_graph(function, backend):
    check(function, backend, fullgraph=True)


def written_later(x, weight, seen):
    hidden = x @ weight
    hidden.register_hook(lambda gradient: gradient * 2)
    hidden.mul_(3)
    return (hidden * hidden).sum()


def of_a_view(x, weight, seen):
    hidden = (x @ weight).view(3, 4)
    hidden.register_hook(lambda gradient: gradient * 2)
    return (hidden * hidden).sum()


def differentiated_inside(x, weight, seen):
    hidden = x @ weight
    hidden.register_hook(seen.append)
    loss = (hidden * hidden).sum()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    return gradient.square().sum()


def with_a_handle(x, weight, seen):
    hidden = x @ weight
    handle = hidden.register_hook(lambda gradient: gradient * 2)
    result = hidden.sin()
    handle.remove()
    return result


def under_checkpoint(x, weight, seen):
    def block(x):
        hidden = x @ weight
        hidden.register_hook(seen.append)
        return hidden.sin()

    return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)


def refused_by_eager(x, weight, seen):
    with torch.no_grad():
        hidden = x @ weight
        try:
            hidden.register_hook(lambda gradient: gradient)
        except RuntimeError:
            hidden = hidden * 0
    return hidden + x @ weight


BROKEN = {
    written_later: "unrebuildable-value",
    of_a_view: "tensor-attribute",
    differentiated_inside: "backward-call",
    with_a_handle: "unrebuildable-value",
    under_checkpoint: "foreign-call",
    refused_by_eager: "tensor-attribute",
}


@BACKENDS
@pytest.mark.parametrize("function", BROKEN, ids=lambda function: function.__name__)
def test_where_the_graph_ends(function, backend):
    with dynascope.expected(BROKEN[function]):
        check(function, backend)


@BACKENDS
def test_a_handle_that_is_returned_removes_the_hook(backend):
    def function(x):
        hidden = x * 2
        handle = hidden.register_hook(lambda gradient: gradient * 2)
        return hidden.sin(), handle

    x = torch.ones(3, requires_grad=True)
    with dynascope.expected("unrebuildable-value"):
        result, handle = dynascope.compile(function, backend=backend)(x)
    handle.remove()
    result.sum().backward()
    torch.testing.assert_close(x.grad, 2 * (2 * x.detach()).cos())


@BACKENDS
def test_an_error_in_a_hook_is_the_programs(backend):
    def function(x):
        hidden = x * 2
        hidden.register_hook(lambda gradient: gradient.no_such_name)
        return hidden.sin()

    x = torch.ones(3, requires_grad=True)
    result = dynascope.compile(function, backend=backend)(x)
    with pytest.raises(AttributeError, match="no_such_name"):
        result.sum().backward()
    assert x.grad is None


def beside(x, weight, seen):
    hidden, other = (x @ weight).tanh(), x.sin() * weight.sum()
    hidden.register_hook(lambda gradient: seen.append(gradient.shape))
    return hidden, other


def before_a_backward(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.register_hook(lambda gradient: seen.append(gradient.shape))
    x.sum().backward()
    return hidden, x


def that_nobody_reads(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.register_hook(lambda gradient: seen.append(gradient.shape))
    return (x * 2, x.sin())


@BACKENDS
@pytest.mark.may_break
@pytest.mark.parametrize("function", [beside, before_a_backward, that_nobody_reads])
def test_a_hook_is_not_called_in_a_pass_that_does_not_come_through(function, backend):
    """A region is one node: autograd calls the hooks on all of its results, with None where it has no gradient."""
    found = []
    for call in (function, dynascope.compile(function, backend=backend)):
        seen = []
        for _ in range(2):
            x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
            results = call(x, weight, seen)
            results[1].sum().backward(retain_graph=True)
            seen += [x.grad.clone(), weight.grad is None]
            results[0].sum().backward()
            seen += [x.grad, weight.grad]
        found.append(seen)
    torch.testing.assert_close(found[1], found[0])


@BACKENDS
def test_a_hook_on_a_parameter_is_not_called_in_a_pass_that_does_not_lead_to_it(backend):
    """As clipping hooks on all parameters of a model are, whose loss is of one of its heads."""
    found = []
    for compile in (lambda function: function, lambda function: dynascope.compile(function, backend=backend)):
        first, second, seen = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), []
        first.register_hook(lambda gradient: gradient.clamp(max=0.5))
        handle = second.register_hook(lambda gradient, seen=seen: seen.append(gradient.shape) or gradient * 2)
        call = compile(lambda x, first=first, second=second: ((x * first).sin(), (x * second).cos()))
        for at in (0, 1, 0, 1):
            call(torch.ones(3))[at].sum().backward()
            seen += [first.grad.clone(), None if second.grad is None else second.grad.clone()]
        handle.remove()
        call(torch.ones(3))[1].sum().backward()
        found.append([*seen, second.grad])
    torch.testing.assert_close(found[1], found[0])


@BACKENDS
def test_what_autograd_says_of_a_hook_names_it(backend):
    def program(x):
        hidden = x * 2
        hidden.register_hook(widened)
        return hidden

    def widened(gradient):
        return gradient.double()

    result = dynascope.compile(program, backend=backend)(torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="hook 'widened' has changed the type"):
        result.sum().backward()


@BACKENDS
def test_whether_an_input_is_a_leaf_is_relied_on(backend):
    """Of a leaf `retain_grad` does nothing, and of other tensors it keeps the gradient; other hooks are refused of these."""

    def keeps(x):
        x.retain_grad()
        return x * 2

    def program(x):
        x.register_post_accumulate_grad_hook(seen.append)
        return x * 2

    call = dynascope.compile(keeps, backend=backend)
    for make in (lambda leaf: leaf, lambda leaf: leaf * 1, lambda leaf: leaf[:], lambda leaf: leaf):
        given = make(torch.ones(3, requires_grad=True))
        call(given).sum().backward()
        assert given.grad.tolist() == [2, 2, 2]
    seen, call = [], dynascope.compile(program, backend=backend)
    call(torch.ones(3, requires_grad=True)).sum().backward()
    assert len(seen) == 1
    with dynascope.expected("tensor-attribute", required=False), pytest.raises(RuntimeError, match="non-leaf") as caught:
        call(torch.ones(3, requires_grad=True) * 1)
    lines = [entry.lineno + 1 for entry in caught.traceback if entry.name == "program"]
    assert lines == [program.__code__.co_firstlineno + 1]


@BACKENDS
def test_a_hook_for_what_was_accumulated_is_not_called_where_nothing_was(backend):
    """As optimizers that step in the backward pass: of a model with two heads, whose loss is of one."""
    found = []
    for compile in (lambda function: function, lambda function: dynascope.compile(function, backend=backend)):
        shared, first, second = (torch.ones(3, requires_grad=True) for _ in range(3))
        seen = []
        for name, leaf in (("shared", shared), ("first", first), ("second", second)):
            leaf.register_post_accumulate_grad_hook(lambda leaf, name=name, seen=seen: seen.append((name, leaf.grad.sum().item())))
        call = compile(lambda x, a=shared, b=first, c=second: ((x * a * b).sum(), (x * a * c).sum()))
        for chosen in ((0,), (1,), (0, 1), (0,)):
            results = call(torch.ones(3))
            sum(results[at] for at in chosen).backward()
            (first * 2).sum().backward()
        found.append(sorted(seen))
    assert found[0] == found[1]


@BACKENDS
@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_hook_for_several_gradients_is_called_once(mode, backend):
    found = []
    for compile in (lambda function: function, lambda function: dynascope.compile(function, backend=backend)):
        first, second, seen = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), []
        torch.autograd.graph.register_multi_grad_hook((first, second), lambda given, seen=seen: seen.append(str(given)), mode=mode)
        call = compile(lambda x, a=first, b=second: ((x * a).sum(), (x * b).sum()))
        for at in (0, 1, 0):
            call(torch.ones(3))[at].backward()
        found.append(seen)
    assert found[0] == found[1]


def kept_and_read(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.retain_grad()
    (hidden * hidden).sum().backward()
    return hidden.grad * 2, x.clone()


def kept_and_given_back(x, weight, seen):
    hidden = (x @ weight).tanh()
    hidden.retain_grad()
    loss = (hidden * hidden).sum()
    loss.retain_grad()
    loss.backward()
    seen += [hidden, loss, hidden.grad, loss.grad]
    return x.exp(), weight


def kept_twice(x, weight, seen):
    hidden, other = (x @ weight).tanh(), x.sum() * weight.sum()
    hidden.retain_grad()
    hidden.retain_grad()
    other.retain_grad()
    loss = (hidden * hidden).sum()
    loss.backward(retain_graph=True)
    first = hidden.grad
    (hidden * 3).sum().backward()
    seen += [first, hidden.grad, first is hidden.grad, other.grad]
    return x.exp(), hidden.detach()


@BACKENDS
@pytest.mark.parametrize("function", [kept_and_read, kept_and_given_back, kept_twice], ids=lambda function: function.__name__)
def test_kept_gradients_of_passes_inside(function, backend):
    def run(compile):
        torch.manual_seed(0)
        weight, x, seen = torch.randn(3, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True), []
        results = compile(function)(x, weight, seen)
        kept = [each.grad for each in seen if isinstance(each, torch.Tensor) and each.requires_grad]
        return [*results, *seen, *kept, x.grad, weight.grad]

    found = run(lambda function: dynascope.compile(function, backend=backend, fullgraph=True))
    expected = run(lambda function: function)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
            assert one.requires_grad == other.requires_grad
        else:
            assert one == other


def test_a_pass_through_what_keeps_its_gradient_and_was_written_is_left_to_autograd():
    def written(x):
        hidden = x * 2
        hidden.retain_grad()
        hidden.mul_(3)
        (hidden * hidden).sum().backward()
        return hidden.detach()

    expected, found = (torch.ones(3, requires_grad=True) for _ in range(2))
    with dynascope.expected("unrebuildable-value", "backward-call"):
        torch.testing.assert_close(dynascope.compile(written)(found), written(expected))
    torch.testing.assert_close(found.grad, expected.grad)
