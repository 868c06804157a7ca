"""Hooks that the program puts on results and on inputs with a history, outside: a region is one node of autograd's, and calls no hook in
passes that do not come through its tensor."""

import dynascope
import pytest
import torch

BACKENDS = pytest.mark.parametrize("backend", ["eager", "dynascope"])


def outcomes(played, backend):
    dynascope.reset()
    return played(lambda function: function), played(lambda function: dynascope.compile(function, backend=backend))


def leaves():
    return torch.ones(3, requires_grad=True), torch.linspace(0.5, 1, 3).requires_grad_()


def noting(seen, name):
    return lambda gradient: seen.append((name, None if gradient is None else gradient.tolist()))


@BACKENDS
def test_of_two_results(backend):
    def played(compile):
        function, seen = compile(lambda x, w: (x.sin() * 2, (w * 3).exp())), []
        for _ in range(2):
            one, other = function(*leaves())
            one.register_hook(noting(seen, "one"))
            other.register_hook(noting(seen, "other"))
            other.sum().backward()
            seen.append("between")
            one.sum().backward()
        return seen

    theirs, ours = outcomes(played, backend)
    assert ours == theirs


@BACKENDS
@pytest.mark.parametrize("when", ["before", "after", "both", "dropped"])
def test_of_an_input_with_a_history(backend, when):
    """Where one of the results comes from it: dropped is the tensor that had the hook."""

    def played(compile):
        function, seen = compile(lambda h, w: (h.sin() * w, (w * 3).exp())), []
        for _ in range(2):
            x, w = leaves()
            h = x * 2
            if when in ("before", "both"):
                h.register_hook(noting(seen, "before"))
            one, other = function(h, w)
            if when != "before":
                h.register_hook(noting(seen, "after"))
            if when == "dropped":
                del h
            other.sum().backward()
            seen.append((x.grad, w.grad.tolist()))
            one.sum().backward()
            seen.append((x.grad.tolist(), w.grad.tolist()))
        return seen

    theirs, ours = outcomes(played, backend)
    assert ours == theirs


@BACKENDS
def test_of_a_region_before_another(backend):
    """The first region has one result; the second gives it no gradient in a pass."""

    def played(compile):
        first, second, seen = compile(lambda x: x.sin() * 2), compile(lambda h, w: (h.sin() * w, (w * 3).exp())), []
        for _ in range(2):
            x, w = leaves()
            k = x * 2
            k.register_hook(noting(seen, "k"))
            h = first(k)
            h.register_hook(noting(seen, "h"))
            one, other = second(h, w)
            other.sum().backward()
            seen.append(x.grad)
            one.sum().backward()
        return seen

    theirs, ours = outcomes(played, backend)
    assert ours == theirs


@BACKENDS
def test_hooks_that_go_and_that_change_gradients(backend):
    def played(compile):
        function, seen = compile(lambda x, w: (x.sin() * w, (w * 3).exp())), []
        for _ in range(2):
            x, w = leaves()
            one, other = function(x * 1, w)
            first = one.register_hook(noting(seen, "first"))
            one.register_hook(lambda gradient: gradient * 2)
            one.register_hook(noting(seen, "third"))
            other.sum().backward()
            first.remove()
            one.retain_grad()
            one.sum().backward()
            seen.append(("gradients", x.grad.round(decimals=5).tolist(), one.grad.tolist()))
            one, other = function(x * 1, w)
            one.register_hook(lambda gradient: gradient.new_zeros(2))
            other.sum().backward()
            with pytest.raises(RuntimeError, match="changed the size of value"):
                one.sum().backward()
        return seen

    theirs, ours = outcomes(played, backend)
    assert ours == theirs


@BACKENDS
def test_a_hook_on_several_is_told_which_came(backend):
    def played(compile):
        function, seen = compile(lambda x, w: (x.sin() * w, (w * 3).exp())), []
        for mode in ("all", "any"):
            x, w = leaves()
            one, other = function(x * 1, w)
            torch.autograd.graph.register_multi_grad_hook([one, other], lambda given: seen.append(str(given)), mode=mode)
            other.sum().backward()
        return seen

    theirs, ours = outcomes(played, backend)
    assert ours == theirs
