"""A loop whose every turn breaks: one region for all turns, whatever it goes over, and each item taken once as in Python."""

import dynascope
import pytest
import torch
from harness import recorded
from torch import nn


class Attributes:
    pass


def taken_inside(x):
    values, out = iter(range(1, 9)), []
    for a in values:
        print(end="")
        x = x + a
        out.append(next(values, None))
    return x, out


def taken_below_an_enumerate(x):
    values, out = iter([1, 2, 3, 4, 5, 6, 7, 8]), []
    for at, a in enumerate(values):
        print(end="")
        x = x + a * at
        if a == 3:
            out.append(next(values))
    return x, out, list(values)


def grows(x):
    todo = [1]
    for a in todo:
        print(end="")
        x = x + a
        if len(todo) < 6:
            todo.append(a + len(todo))
    return x, todo


def shrinks(x):
    todo = [1, 2, 3, 4, 5, 6]
    for a in todo:
        print(end="")
        x = x * a
        todo.pop()
    return x, todo


def overwritten(x):
    todo = [1, 2, 3, 4, 5, 6]
    for at, a in enumerate(todo):
        print(end="")
        x = x * a
        if at + 1 < len(todo):
            todo[at + 1] = a * 2
    return x, todo


def values_overwritten(x):
    named = dict(a=1, bb=2, ccc=3)
    for name in named:
        print(end="")
        x = x + len(name)
        named[name] = x
    return x, list(named.values())


def dictionary_grows(x):
    named = dict(a=1, bb=2, ccc=3)
    try:
        for name in named:
            print(end="")
            x = x + 1
            named[name + "x"] = x
    except RuntimeError as error:
        return x, len(str(error))


def attributes_come(x):
    held = Attributes()
    held.a, held.b = 1, 2
    try:
        for name, value in vars(held).items():
            print(end="")
            x = x + value
            setattr(held, f"c{name}", 3)
    except RuntimeError as error:
        return x, len(str(error))


def nested(x):
    for at, (a, b) in enumerate(zip([1, 2, 3, 4], range(10), strict=False)):
        for c in (1, 2):
            print(end="" * c)
        x = x * a + b - c + at
    return x


def one_is_shorter(x):
    left, right = iter([1, 2, 3, 4, 5]), iter([1, 2, 3])
    for a, b in zip(left, right, strict=False):
        print(end="")
        x = x * a + b
    return x, list(left), list(right)


def items_kept(x):
    kept = []
    for turn in enumerate([torch.ones(3), torch.zeros(3), x]):
        print(end="")
        kept.append(turn)
        x = x + turn[1]
    return x, kept, [a is b for a in kept for b in kept]


def raises(x):
    values = iter([1, 2, 0, 4])
    try:
        for a in values:
            print(end="")
            x = x + 1 // a
    except ZeroDivisionError:
        return x, list(values)


def rarely(x):
    for at in range(60):
        x = x * 0.99 + at
        if at % 20 == 0:
            print(end="")
    return x


PROGRAMS = [
    taken_inside,
    taken_below_an_enumerate,
    grows,
    shrinks,
    overwritten,
    values_overwritten,
    dictionary_grows,
    attributes_come,
    nested,
    one_is_shorter,
    items_kept,
    raises,
    rarely,
]


@pytest.mark.may_break
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program):
    compiled = dynascope.compile(program, backend="eager")
    for start in (0.0, 1.0):
        x = torch.full((3,), start)
        torch.testing.assert_close(compiled(x.clone()), program(x.clone()))


@pytest.mark.may_break
def test_what_is_written_may_be_what_the_loop_goes_over():
    def over_a_list(x, todo, other):
        for a in todo:
            print(end="")
            x = x * a
            other.append(a)
            if len(other) > 7:
                break
        return x, todo, other

    def over_a_dictionary(x, named, other):
        try:
            for name, value in named.items():
                print(end="")
                x = x + value
                other[f"n{name}"] = 1
        except RuntimeError as error:
            return x, len(str(error))
        return x, list(named.values()), list(other.values())

    for function, make in ((over_a_list, lambda: [1, 2, 3]), (over_a_dictionary, lambda: dict(a=1, b=2))):
        compiled = dynascope.compile(function, backend="eager")
        for is_one in (False, False, True, True):
            mine, theirs = make(), make()
            found = compiled(torch.ones(2), mine, mine if is_one else type(mine)())
            torch.testing.assert_close(found, function(torch.ones(2), theirs, theirs if is_one else type(theirs)()))


@pytest.mark.may_break
def test_an_error_of_the_graph_takes_no_item_twice():
    def function(x, places):
        left = iter(places)
        try:
            for place in left:
                print(end="")
                x = x[place]
        except IndexError:
            return x, len(list(left))
        return x, 0

    compiled = dynascope.compile(function, backend="eager")
    for last in (5, 1, 5):
        places = [torch.tensor([0, 1, 2]), torch.tensor([last]), torch.tensor([0])]
        torch.testing.assert_close(compiled(torch.arange(8), places), function(torch.arange(8), places))


@pytest.mark.expects("data-dependent-branch")
@pytest.mark.parametrize("count", [3, 12])
def test_layers_share_one_region(count):
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))

    def function(x):
        for layer in layers:
            x = layer(x)
            if x.sum() > 1e9:
                break
        return x

    compiled = dynascope.compile(function, backend="eager")
    with recorded() as recorder:
        for _ in range(2):
            x = torch.randn(2, 4)
            torch.testing.assert_close(compiled(x), function(x))
    (function,) = recorder.report().functions
    assert len(function.entries) == 3  # up to the first break, from one to the next, and behind the last


@pytest.mark.expects("data-dependent-branch")
def test_what_was_found_in_a_tensor_varies_behind_a_break():
    def function(x):
        found = (x > 0).nonzero().squeeze(-1)
        if found.numel() == 0:
            return x
        return x[found] * 2

    compiled = dynascope.compile(function)
    with recorded() as recorder:
        for negative in (1, 3, 5):
            x = torch.arange(8.0) - negative + 0.5
            torch.testing.assert_close(compiled(x), function(x))
    (found,) = recorder.report().functions
    assert len(found.entries) == 2


@pytest.mark.expects("foreign-call")
def test_a_float_that_python_gives_at_a_break_varies():
    import random

    def function(x):
        limit = random.random()
        if limit < 2.0:
            x = x + 1
        return x * limit

    compiled = dynascope.compile(function, backend="eager")
    with recorded() as recorder:
        for seed in range(3):
            random.seed(seed)
            found = compiled(torch.ones(2))
            random.seed(seed)
            torch.testing.assert_close(found, function(torch.ones(2)))
    (found,) = recorder.report().functions
    assert len(found.entries) == 2


class SaysWhatItIsAsked(list):
    asked = ()

    def __len__(self):
        return 2

    def __iter__(self):
        return list.__iter__(self)

    def __getitem__(self, at):
        self.asked += (at,)
        return list.__getitem__(self, at)


@pytest.mark.expects("foreign-value")
def test_who_asks_what_comes_next_asks_no_subclass():
    def function(x, factors):
        for factor in factors:
            x = x * factor
        return x

    compiled = dynascope.compile(function, backend="eager")
    given = (iter([2]), SaysWhatItIsAsked([1, 2]), iter([3]), SaysWhatItIsAsked([2, 2]))
    assert [compiled(torch.ones(()), factors).item() for factors in given] == [2, 2, 3, 4]
    assert not given[1].asked and not given[3].asked
