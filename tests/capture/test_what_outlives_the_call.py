"""What a call leaves behind that no graph computes: numbers that vary, objects that hold themselves, `.data`."""

import dynascope
import pytest
import torch

X = torch.tensor([-1.0, 0.5, 2.0])


class Box:
    def __init__(self, value):
        self.value = value


class Slotted:
    """Whoever asks is noted."""

    __slots__ = ("other", "value")
    asked = []

    def __init__(self):
        self.value = 1

    def __getattribute__(self, name):
        Slotted.asked.append(name)
        return object.__getattribute__(self, name)


def in_a_list(n, log):
    log.append(1 * n)


def in_an_object(n, log):
    log.append(Box(n // 1))


def in_a_cell(n, log):
    def add(by):
        nonlocal n
        n = n + by
        return n

    add(0)
    log.append(lambda: n)


def returned(n, log):
    return n + 0, [n * 1]


@pytest.mark.parametrize("function", [in_a_list, in_an_object, in_a_cell, returned])
def test_a_number_that_varies_and_that_nothing_computes_with(function):
    """It comes from its own place: there is no graph."""
    compiled = dynascope.compile(function, backend="eager")
    for number in (1, 2.5, 3, 2.5, 3.5, 7, 1000, 1001):
        theirs, ours = [], []
        assert function(number, theirs) == compiled(number, ours)
        assert [*map(plain, theirs)] == [*map(plain, ours)]


def plain(kept):
    kept = kept.value if isinstance(kept, Box) else kept() if callable(kept) else kept
    return type(kept), kept


def test_a_function_that_calls_itself():
    def program(x, kept):
        def count(n):
            return 0 if n == 0 else count(n - 1) + 1

        kept.append(count)
        return x + count(2)

    kept = []
    compiled = dynascope.compile(program, backend="eager")
    assert torch.equal(compiled(X, kept), X + 2) and torch.equal(compiled(X, kept), X + 2)
    assert [each(5) for each in kept] == [5, 5] and kept[0] is not kept[1]
    assert kept[0].__closure__[0].cell_contents is kept[0]


@pytest.mark.expects("unrebuildable-value")
def test_a_list_in_a_default_of_its_own_item():
    def program(x):
        items = []

        def give(found=items):
            return found

        items.append(give)
        return x + 1, give

    result, give = dynascope.compile(program, backend="eager")(X)
    assert torch.equal(result, X + 1) and give()[0] is give


@pytest.mark.may_break
def test_deleting_an_empty_slot_asks_nobody():
    """Not the guard either, which would have to run the class's own `__getattribute__`."""

    def program(x, thing):
        print(end="")
        del thing.other
        return x

    compiled = dynascope.compile(program, backend="eager")
    for _ in range(3):
        thing = Slotted()
        Slotted.asked.clear()
        with pytest.raises(AttributeError):
            compiled(X, thing)
        assert Slotted.asked == []


def writes_and_goes_on(x, log):
    y = x.flip(0)
    y.relu_()
    y.data.mul_(0.5)
    return y


def writes_an_input(x, log):
    x.data.mul_(0.5).add_(1)
    return x.sin()


def writes_between(x, log):
    y = (x * 2).exp()
    y.data.add_(1)
    return y.detach() * x


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("function", [writes_and_goes_on, writes_an_input, writes_between])
def test_writing_through_data_is_hidden_from_autograd(function, backend):
    seen = []
    for call in (function, dynascope.compile(function, backend=backend)):
        x, log = X.clone().requires_grad_(), []
        result = call(x, log)
        result.sum().backward()
        seen.append((result.detach(), x.detach(), x.grad, x._version))
    for theirs, ours in zip(*seen, strict=True):
        assert torch.allclose(theirs, ours) if isinstance(theirs, torch.Tensor) else theirs == ours


@pytest.mark.expects("tensor-attribute")
def test_the_version_of_what_is_written_through_data():
    def program(x):
        y = x * 2
        y.data.mul_(0.5)
        return y, y._version

    assert dynascope.compile(program, backend="eager")(X)[1] == program(X)[1] == 0


def test_a_refused_write_is_refused_on_its_own_line():
    def program(x, n):
        if n:
            n = n + 1
        x.add_(n)
        return x

    view = X.clone().requires_grad_()[:2]
    lines = []
    for call in (program, dynascope.compile(program, backend="eager")):
        with pytest.raises(RuntimeError, match="a view of a leaf") as raised:
            call(view, 2)
        lines.append([entry.lineno for entry in raised.traceback if entry.name == "program"])
    assert lines[0] == lines[1]
