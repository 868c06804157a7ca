"""Views of one base count their changes together: what eager's backward pass says of one that was kept when another is written."""

from __future__ import annotations

import itertools

import dynascope
import pytest
import torch


def base() -> torch.Tensor:
    return torch.arange(1.0, 9.0).reshape(2, 4) / 3


def parameter_and_detached() -> tuple[torch.Tensor, ...]:
    rows = torch.nn.Parameter(base())
    return rows.detach()[0], rows[1]


INPUTS = {
    "rows": lambda: tuple(base()),
    "parts": lambda: (lambda rows: (rows[0], rows[1]))(base()),
    "columns": lambda: tuple(base().chunk(2, 1)),
    "by data": lambda: (lambda rows: (rows[0].data, rows[1].data))(base()),
    "a parameter, and detached": parameter_and_detached,
    "data of a parameter": lambda: (lambda rows: (rows.data[0], rows[1]))(torch.nn.Parameter(base())),
    "of other memory": lambda: (base(), base()),
}


def before(p, q, w):
    p.add_(1)
    return w * q


def after(p, q, w):
    y = w * q
    p.add_(1)
    return y


def before_and_after(p, q, w):
    p.add_(1)
    y = w * q
    p.mul_(2)
    p[0] = 3
    return y


def the_kept_one_too(p, q, w):
    p.add_(1)
    q.detach().mul_(2)
    return w * q * p


def two_are_kept(p, q, w):
    y = w * q
    p.add_(1)
    return y.exp() * w


def kept_by_another_result(p, q, w):
    y = w * q
    p.add_(1)
    return w.sin(), y


def without_gradients(p, q, w):
    with torch.no_grad():
        p.add_(1)
    return w * q


def by_data(p, q, w):
    y = w * q
    p.data.add_(1)
    return y


PROGRAMS = [before, after, before_and_after, the_kept_one_too, two_are_kept, kept_by_another_result, without_gradients, by_data]


def told(function, inputs):
    p, q = INPUTS[inputs]()
    w = torch.linspace(1, 2, q.numel()).view(q.shape).requires_grad_()
    start = p._version, q._version
    results = function(p, q, w)
    results = results if isinstance(results, tuple) else (results,)
    found = [p._version - start[0], q._version - start[1], [each._version for each in results]]
    for result in results:
        try:
            result.sum().backward(retain_graph=True)
        except RuntimeError as error:
            found.append(str(error))
    return found, (p, q, *(each.detach() for each in results), w.grad)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager(program, inputs, backend):
    compiled = dynascope.compile(program, backend=backend)
    with dynascope.expected("aliased-mutation", "foreign-call", required=False):
        for _ in range(2):
            (ours, mine), (theirs, others) = told(compiled, inputs), told(program, inputs)
            assert ours == theirs
            torch.testing.assert_close(mine, others)


def test_one_entry_serves_inputs_that_share_and_others():
    for first, then in itertools.permutations(INPUTS, 2):
        compiled = dynascope.compile(before)
        with dynascope.expected("aliased-mutation", "foreign-call", required=False):
            for inputs in (first, then):
                (ours, mine), (theirs, others) = told(compiled, inputs), told(before, inputs)
                assert ours == theirs
                torch.testing.assert_close(mine, others)


def made_inside(x):
    y = torch.zeros(3).add_(x)
    y[0] = 1
    return y, y[1:], x * 2


def kept_when_written(x):
    y = torch.zeros(3).add_(x).mul_(2)
    return y, y.sin()


def of_data(x):
    return x.data, x.data[1:], x.detach(), x.detach()[1:]


def of_data_written_inside(x):
    data, part = x.data, x.data[1:]
    part.add_(1)
    again = data.mul_(2).data
    return data, part, again.add_(1)


def by_kernels_that_write_a_copy(x):
    places = torch.tensor([1])
    return x.index_put((places,), x[:1]), x.index_add(0, places, x[:1]), x.index_put((places,), x[:1]).index_put_((places,), x[1:2])


def made_by_the_library(x):
    made = torch.linspace(0, 1, 5), torch.randn(3), torch.normal(0.0, 1.0, (2,)), torch.hann_window(4)
    return *made, torch.empty(2).fill_(3), (x.detach() * 2).uniform_(), (x.detach() * 2).uniform_().mul_(2)


def written_by_the_library(x):
    y = x.detach() * 2
    y[y > 1.2] = 2
    y.scatter_(0, torch.tensor([0]), torch.ones(1))
    return (y,)


def of_forms_of_our_own(x):
    return torch.nn.functional.one_hot(torch.tensor([1, 0]), 4), torch.nn.functional.max_pool1d(x[None, None], 2)


RESULTS = [made_by_the_library, written_by_the_library, made_inside, kept_when_written, of_data, by_kernels_that_write_a_copy]
RESULTS += [of_forms_of_our_own, of_data_written_inside]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("program", RESULTS, ids=lambda program: program.__name__)
def test_versions_of_results(program, needs_grad, mode):
    seen = []
    for function in (program, dynascope.compile(program)):
        x = torch.linspace(0.5, 1, 3).requires_grad_(needs_grad)
        torch.manual_seed(0)
        with mode():
            results = function(x)
            counted = [each._version for each in (x, *results) if not each.is_inference()]
            with torch.no_grad():
                for each in reversed(results):
                    each.mul_(1)
            counted += [each._version for each in (x, *results) if not each.is_inference()]
        seen.append((counted, [each.detach() for each in results]))
    assert seen[0][0] == seen[1][0]
    torch.testing.assert_close(seen[0][1], seen[1][1])


@pytest.mark.parametrize("needs_grad", [False, True])
def test_an_input_of_which_a_view_becomes_another(needs_grad):
    def program(x, w):
        part = x[1:]
        part.squeeze_()
        return w * 2, part.shape

    compiled = dynascope.compile(program)
    for function in (program, compiled, compiled):
        x = torch.ones(3, 1, dtype=torch.int64)
        function(x, torch.ones(2, requires_grad=needs_grad))
        assert x._version == 1


def test_an_input_that_the_library_writes_counts_that_once():
    def program(x):
        x[x > 0.6] = 2
        return x + 1

    compiled = dynascope.compile(program)
    for function in (program, compiled, compiled):
        x = torch.linspace(0.5, 1, 3)
        torch.testing.assert_close(function(x), torch.tensor([1.5, 3, 3]))
        assert x._version == 1
