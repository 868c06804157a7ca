"""Several backward passes through the results of one region: each frees what eager's frees, and is refused where eager's is."""

from __future__ import annotations

import gc
import weakref

import dynascope
import pytest
import torch
from dynascope.capture import standing_aside
from dynascope.grad.tangents import Otherwise


class Doubled(torch.autograd.Function):
    """Keeps nothing, so that autograd runs it as often as asked."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def part_written(y):
    y[0] = 3
    return y


PROGRAMS = {
    "nothing shared": lambda x, a, b: ((x.detach() * a).exp().sum(), (x.detach() * b).tanh().sum()),
    "two heads on a kept result": lambda x, a, b: ((x * a).exp().sum(), ((x * a).exp() * b).sum()),
    "two heads on one result": lambda x, a, b: (lambda h: (h.sum(), (h * b).sum()))((x * a).exp()),
    "two heads on a sum": lambda x, a, b: (lambda h: ((h * h).sum(), (h * b).sum()))(x + a),
    "nothing kept for one": lambda x, a, b: (x + a, (x * b).exp()),
    "nothing kept": lambda x, a, b: (x + a, (x - b).sum(0)),
    "a write to a part": lambda x, a, b: (part_written(x.roll(1, 0)), (a + b).sum()),
    "numbers kept": lambda x, a, b: ((x * 2).sum(), (x * 3).sum()),
    "projections of one input": lambda x, a, b: (x @ a, x @ b),
    "one view of the other": lambda x, a, b: (lambda h: (h, h[1:] * 1))(x * a),
    "a custom function that keeps nothing": lambda x, a, b: (Doubled.apply(x).sum(), (Doubled.apply(a) * b).sum()),
    "three": lambda x, a, b: (x.detach() @ a, (x.detach() * b).sin(), (a + 1).cos()),
}


def run(*outputs, **options):
    sum(output.sum() for output in outputs).backward(**options)


def in_turn(inputs, *outputs):
    for output in outputs:
        run(output)


def in_reverse(inputs, *outputs):
    in_turn(inputs, *reversed(outputs))


def one_twice(inputs, first, *others):
    in_turn(inputs, first, first)


def all_twice(inputs, *outputs):
    run(*outputs)
    run(*outputs)


def all_and_then_one(inputs, first, *others):
    run(first, *others)
    run(first)


def one_and_then_all(inputs, first, *others):
    run(first)
    run(first, *others)


def kept_at_first(inputs, first, second, *others):
    run(first, retain_graph=True)
    run(second)
    run(first)


def gradients_in_turn(inputs, *outputs):
    for output in outputs:
        found = torch.autograd.grad(output.sum(), inputs, allow_unused=True)
        for tensor, gradient in zip(inputs, found, strict=True):
            if gradient is not None:
                tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient


def of_second_order(inputs, first, *others):
    run(first)
    found = torch.autograd.grad(others[-1].sum(), inputs, create_graph=True, allow_unused=True)
    sum(gradient.pow(2).sum() for gradient in found if gradient is not None).backward()


def changed_between(inputs, first, second, *others):
    run(first)
    with torch.no_grad():
        inputs[2].add_(1)
    run(second)


def result_changed_between(inputs, first, second, *others):
    run(first)
    with torch.no_grad():
        second.add_(1)
    run(second)


WAYS = (in_turn, in_reverse, one_twice, all_twice, all_and_then_one, one_and_then_all, kept_at_first, gradients_in_turn)
WAYS += (of_second_order, changed_between, result_changed_between)


def outcome(function, way, rows=3):
    torch.manual_seed(0)
    inputs = [torch.rand(rows, 4), torch.rand(4), torch.rand(4)]
    for tensor in inputs:
        tensor.requires_grad_()
    try:
        way(inputs, *function(*inputs))
    except RuntimeError as error:
        return str(error)
    return [tensor.grad for tensor in inputs]


def check(ours, theirs, says_the_same=True):
    if not isinstance(ours, str) and not isinstance(theirs, str):
        torch.testing.assert_close(ours, theirs)
    elif says_the_same:
        assert ours == theirs
    else:  # freed and changed at once: which is met first, the order of eager's nodes says
        assert isinstance(ours, str) and isinstance(theirs, str)


@pytest.mark.turns(6)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name, way):
    compiled = dynascope.compile(PROGRAMS[name])
    for _ in range(2):
        check(outcome(compiled, way), outcome(PROGRAMS[name], way), says_the_same=way is not changed_between)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_of_all_kinds_through_one_region(name):
    """What one pass has found out of its tangents serves the next one like it, and no other."""
    compiled = dynascope.compile(PROGRAMS[name])
    for way in (*WAYS, *reversed(WAYS), *WAYS):
        check(outcome(compiled, way), outcome(PROGRAMS[name], way), says_the_same=way is not changed_between)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["as planned", "transposed"])
def test_a_pass_like_an_earlier_one_has_nothing_to_find_out(order, monkeypatch):
    """A loss beside other results, as language models give it."""
    asked = []
    first = Otherwise._first_derivative
    monkeypatch.setattr(Otherwise, "_first_derivative", lambda *given: asked.append(given) or first(*given))

    def program(x, a):
        hidden = (x * a).exp()
        return hidden * 2, hidden @ a

    compiled, x, a = dynascope.compile(program), torch.rand(3, 4, requires_grad=True), torch.rand(4, requires_grad=True)
    for scale in (1, 2, 3):
        tangent = torch.rand(3, 4) if order == (0, 1) else torch.rand(4, 3).T
        found, expected = (torch.autograd.grad(f(x, a)[0], (x, a), tangent * scale) for f in (compiled, program))
        torch.testing.assert_close(found, expected)
    assert len(asked) == 1


def test_of_rows_that_vary():
    program = PROGRAMS["nothing shared"]
    compiled = dynascope.compile(program)
    for rows in (3, 5, 7, 4):
        torch.testing.assert_close(outcome(compiled, in_turn, rows), outcome(program, in_turn, rows))


def test_an_error_after_another_pass_read_the_rest():
    """What the first pass did not read was changed before it: the second one says so."""

    def way(inputs, first, second):
        with torch.no_grad():
            inputs[2].add_(1)
        run(first)
        run(second)

    program = PROGRAMS["nothing shared"]
    check(outcome(dynascope.compile(program), way), outcome(program, way))


@pytest.mark.parametrize("name", ["nothing shared", "two heads on one result"])
def test_what_no_pass_can_read_is_freed(name, monkeypatch):
    """What one result keeps goes with its pass; where the other cannot be asked for any more, so does what that keeps."""
    monkeypatch.setattr(standing_aside, "_is_of_torch", lambda hook: True)  # these hooks look at what kernels keep
    compiled = dynascope.compile(lambda x, a, b: PROGRAMS[name](x * 1, a * 1, b * 1))
    made = []

    def keep(tensor):
        made.append(weakref.ref(tensor))
        return tensor

    x, a, b = (torch.rand(size, requires_grad=True) for size in ((3, 4), (4,), (4,)))
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.clone(), keep):
        first, second = compiled(x, a, b)
    run(first)
    gc.collect()
    alive = sum(reference() is not None for reference in made)
    assert alive < len(made) if name == "nothing shared" else alive == 0
    if name == "nothing shared":
        run(second)
        gc.collect()
        assert not any(reference() is not None for reference in made)


def test_results_are_freed_with_their_region():
    """What is kept for a second pass is not what keeps the region alive."""
    compiled = dynascope.compile(lambda x, a: ((x * a).exp(), a.tanh()))
    x, a = torch.rand(4), torch.rand(4, requires_grad=True)
    first, second = compiled(x, a)
    seen = [weakref.ref(first), weakref.ref(second)]
    run(first)
    node = weakref.ref(second.grad_fn)
    del first, second
    gc.collect()
    assert [reference() for reference in (*seen, node)] == [None] * 3


@pytest.mark.compiler
def test_a_pass_that_the_recording_does_not_have():
    """Through one result alone, of what was written through a view beyond the end: the region runs again."""

    def program(x, y):
        x = x.double()
        x.view(-1)[1:].add_(1)
        return x, torch.special.xlogy(x, y * y + 1)

    for function in (program, dynascope.compile(program)):
        x = torch.zeros(2, 2, requires_grad=True)
        for _ in range(2):
            _, result = function(x[2:, 1:], torch.zeros(2, 0, 1))
            result.sum().backward()
        assert x.grad is not None and not x.grad.any()


@pytest.mark.compiler
@pytest.mark.parametrize("leaf", [pytest.param(False, marks=pytest.mark.expects("backward-call")), True])
def test_nothing_is_freed_where_nothing_was_kept(leaf):
    """An input with a history outside, and a backward pass before the function's end."""

    def program(x):
        y = x.clone()
        x.sum().backward()
        return y

    for function in (program, dynascope.compile(program)):
        x = torch.ones(6, requires_grad=True)
        function(x if leaf else x[1:4]).sum().backward()
        assert x.grad.sum() == (12 if leaf else 6)
