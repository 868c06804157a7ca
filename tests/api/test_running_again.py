"""A region whose graph raises runs again as it was written: what it did before the error has then happened once.

Each program is called twice, plain and compiled, and fails. Compared are the error, the arguments and how autograd knows them,
and the next random numbers.
"""

from __future__ import annotations

import dynascope
import pytest
import torch

BACKENDS = pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
SINGULAR = torch.zeros(2, 2)


def fails(*_):
    return torch.linalg.inv(SINGULAR)


def hidden_write(x, w):
    w.data.mul_(0.5)
    return fails()


def hidden_write_to_a_part(x, w):
    x[1:].data.mul_(0.5)
    return fails()


def write_that_gives_a_history(x, w):
    x.mul_(w)
    return fails()


def write_outside_of_autograd(x, w):
    with torch.no_grad():
        w.mul_(2)
    return fails()


def refused_after_another(x, w):
    x.add_(1)
    w.mul_(2)
    return x


def refused_after_a_hidden_one(x, w):
    x.data.add_(1)
    w.data.add_(1)
    w.mul_(2)
    return x


def refused_after_one_to_a_view(x, w):
    part = w[1:]
    part.detach().add_(1)
    part[:1].cumsum_(0)
    return part


def write_beside_an_input(x, w):
    x[:1].detach().as_strided((1,), (1,), 2).add_(1)
    return fails()


def write_beside_a_part(x, w):
    return writes_beside(w.data[:1])


def writes_beside(part):
    part.as_strided((1,), (1,), 2).add_(1)
    return fails()


def numbers_and_writes(x, w):
    x.add_(torch.rand_like(x))
    return torch.nn.functional.dropout(x), fails()


PROGRAMS = (hidden_write, hidden_write_to_a_part, write_that_gives_a_history, write_outside_of_autograd)
PROGRAMS += (
    refused_after_another,
    refused_after_a_hidden_one,
    refused_after_one_to_a_view,
    write_beside_an_input,
    write_beside_a_part,
    numbers_and_writes,
)


def seen(function, make, grad=True, calls=2):
    """What calls that fail leave behind."""
    arguments, found = make(), []
    torch.manual_seed(5)
    for _ in range(calls):
        with pytest.raises(Exception) as raised, torch.set_grad_enabled(grad):  # noqa: PT011 (compared below)
            function(*arguments)
        given = [tensor for tensor in arguments if tensor.requires_grad]
        gradients = [
            torch.autograd.grad(
                tensor.sum(), [each for each in given if each.is_leaf], allow_unused=True, retain_graph=True
            )
            for tensor in given
            if not tensor.is_leaf
        ]
        facts = [(tensor.tolist(), tensor._version, tensor.requires_grad, tensor.is_leaf) for tensor in arguments]
        found.append((raised.type, str(raised.value), facts, gradients, torch.rand(2).tolist()))
    return found


@BACKENDS
@pytest.mark.may_break
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_came_before_an_error_has_happened_once(program, backend):
    def make():
        return torch.ones(3), torch.full((3,), 3.0, requires_grad=True)

    assert repr(seen(dynascope.compile(program, backend=backend), make)) == repr(seen(program, make))


@BACKENDS
@pytest.mark.may_break
def test_a_view_in_place_of_an_input_counts_once(backend):
    def program(x, table):
        x[0].t_()
        return table.index_select(0, x.flatten())

    def make():
        return torch.full((1, 2, 2), 7), torch.ones(3)

    assert repr(seen(dynascope.compile(program, backend=backend), make)) == repr(seen(program, make))


REFUSED = (lambda x, y: (x[None] @ y).sum(), lambda x, y: torch.cat([x.half(), y, x]))


@BACKENDS
@pytest.mark.may_break
@pytest.mark.parametrize("refused", REFUSED, ids=["factors", "unread"])
def test_types_that_are_refused_under_autocast(refused, backend):
    """Products of what autocast has made of their factors; results that nobody reads."""

    def f(x, w):
        w.data.mul_(0.5)
        refused(x, x.double())
        return x * 2

    def in_autocast(function):
        def call(*arguments):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return function(*arguments)

        return call

    def make():
        return torch.ones(3), torch.ones((), requires_grad=True)

    compiled = dynascope.compile(f, backend=backend)
    assert repr(seen(in_autocast(compiled), make)) == repr(seen(in_autocast(f), make))


@BACKENDS
@pytest.mark.may_break
@pytest.mark.parametrize("sizes", [(1, 3), (1,)], ids=str)
def test_writing_to_elements_that_share_a_place(sizes, backend):
    """One element is all of them; a graph that copies new contents back would be refused, after another write."""

    def f(x, d):
        x.add_(1)
        d[0].fill_(2)
        return d + x.sum()

    def shared():
        return torch.ones(3), torch.arange(float(sizes[-1])).expand(4, *sizes).select(-1, 0)

    def overlapping():
        return torch.ones(3), torch.arange(4.0).unfold(0, 2, 1)

    for make in (shared, overlapping):
        plain, compiled = make(), make()
        for _ in range(2):
            assert repr(dynascope.compile(f, backend=backend)(*compiled)) == repr(f(*plain))
        assert repr(compiled) == repr(plain)


def test_an_error_of_nobody_s_where_numbers_were_drawn():
    """No operator of the graph raises. In the first call what does is stood in for, and the numbers are drawn once; later it
    passes, because nothing was kept to draw them again."""
    calls = []

    def backend(graph, inputs):
        def run(*arguments):
            calls.append(torch.rand(()))
            if len(calls) != 2:
                raise RuntimeError("of the backend alone")
            return graph(*arguments)

        return run

    def f(x):
        return torch.nn.functional.dropout(x)

    compiled, x = dynascope.compile(f, backend=backend), torch.ones(9)
    torch.manual_seed(0)
    found = [compiled(x).tolist(), (compiled(x) * 0).tolist()]
    with pytest.raises(RuntimeError, match="of the backend alone"):
        compiled(x)
    drawn = torch.rand(())
    torch.manual_seed(0)
    assert found[0] == f(x).tolist() and torch.rand(()) == calls[1]
    f(x)
    assert torch.rand(2).tolist() == [calls[2], drawn]


@BACKENDS
@pytest.mark.may_break
def test_memory_that_is_written_through_data_is_an_input_s(backend):
    """`.data` of a view is a tensor of its own; what it writes to is still what the view shows."""

    def f(a, b):
        b.data.mul_(0.5)
        return a + 1, fails()

    def make():
        a = torch.arange(4.0).reshape(1, 4).t()
        return a, a.flatten()

    assert repr(seen(dynascope.compile(f, backend=backend), make)) == repr(seen(f, make))


@BACKENDS
@pytest.mark.may_break
def test_writes_outside_of_what_an_input_shows(backend):
    def run(function):
        base = torch.zeros(5)
        with pytest.raises(RuntimeError):
            function(base[:2])
        return base.tolist()

    assert run(dynascope.compile(writes_beside, backend=backend)) == run(writes_beside)


def test_an_error_is_printed_by_nobody(capfd):
    """A graph without kernels is fx's module, which writes to stderr where its first call raises."""
    layer = torch.nn.Linear(4, 4)

    def program(x):
        with torch.autocast("cpu", torch.bfloat16):
            first = layer(x)
            with torch.autocast("cpu", torch.float16):  # autocast remembers the weight as bfloat16
                return first, layer(x)

    with dynascope.expected("operator-failed"), pytest.raises(RuntimeError, match="same dtype"):
        dynascope.compile(program)(torch.ones(2, 4))
    assert capfd.readouterr() == ("", "")
