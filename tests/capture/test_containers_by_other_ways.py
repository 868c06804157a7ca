"""Containers that are made by other ways than their class's call, and fields of named tuples whose class has its own `__getitem__`."""

import collections
import typing

import dynascope
import pytest
import torch

X = torch.ones(2)


class Pair(typing.NamedTuple):
    first: torch.Tensor
    second: torch.Tensor

    @property
    def total(self):
        return self.first + self.second


class Odd(Pair):
    """With attributes of its own: items are not what fields are."""

    def __getitem__(self, at):
        return 7

    def twice(self):
        return self.first * 2 + self[0]


class Short(Pair):
    def __new__(cls, first):
        return tuple.__new__(cls, (first,))


def fields(x):
    pair, short = Odd(x, x + 1), Short(x)
    pair.note = 4
    try:
        missing = short.second
    except IndexError as error:
        missing = str(error)
    return pair.first, pair.total, pair.twice(), pair.note, pair._fields, pair._replace(first=x * 3).first, short.first, missing


def from_keys(x):
    of_default, ordered = collections.defaultdict.fromkeys("ab", x), collections.OrderedDict.fromkeys(iterable=[2, 1], value=x)
    return of_default, of_default.default_factory, ordered, collections.OrderedDict.fromkeys("cb"), dict.fromkeys((1,), 3)


def inserted(x):
    queue, full = collections.deque([1, 2, 3]), collections.deque([1], 1)
    for at, item in ((1, x), (-1, 5), (50, 6), (-50, 7)):
        queue.insert(at, item)
    try:
        full.insert(0, 2)
    except IndexError as error:
        return queue, full, str(error)


def named_results(x):
    made, other = torch.return_types.max((x, x + 1)), torch.return_types.sort([2 * x, None])
    return made.values + made.indices, made, other, other.indices, type(torch.max(x, 0))([x, x])


def factories(x):
    counted = collections.defaultdict(list, a=[x])
    counted["b"].append(x + 1)
    return counted, counted.default_factory is list


@pytest.mark.parametrize("program", [fields, from_keys, inserted, named_results, factories], ids=lambda program: program.__name__)
def test_they_are_as_in_python(program):
    found = dynascope.compile(program, backend="eager", fullgraph=True)(X)
    assert repr(found) == repr(program(X))
    assert [type(each) for each in found] == [type(each) for each in program(X)]


def test_fields_of_an_argument():
    def program(x, given):
        return x + given.first, given.twice(), given.total

    given = Odd(X, X + 2)
    assert repr(dynascope.compile(program, backend="eager", fullgraph=True)(X, given)) == repr(program(X, given))


@pytest.mark.may_break
def test_named_results_refuse_another_number_of_items():
    with pytest.raises(TypeError, match="2-sequence"):
        dynascope.compile(lambda x: torch.return_types.max((x, x, x)), backend="eager")(X)
